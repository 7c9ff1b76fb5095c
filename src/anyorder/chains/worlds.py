"""Small worlds whose joint is known: the laboratory's specimens, by name.

Every world has a ``coupling`` that is 0 when the positions are independent and grows with their dependence, so that
one axis serves all plots. A file of probabilities is a world too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from anyorder.conditionals.table import Table, chain_edges, clique_edges, hidden_markov, ising
from anyorder.errors import AnyorderError, choose
from anyorder.files.json_text import parse_json
from anyorder.memory import require_memory

# Beyond this many nats between the likeliest and the unlikeliest state, products of float64 probabilities underflow.
MAX_LOG_RANGE = 600.0


@dataclass(frozen=True)
class World:
    """A joint, and the pairs of positions that interact in it directly."""

    name: str
    table: Table
    coupling: float
    edges: tuple[tuple[int, int], ...]

    @property
    def states(self) -> int:
        """V^N."""
        return int(self.table.states.shape[0])


def grid_edges(length: int) -> list[tuple[int, int]]:
    """Neighbours on the squarest grid of ``length`` sites; a prime length is a line."""
    rows = max(d for d in range(1, math.isqrt(length) + 1) if length % d == 0)
    columns = length // rows
    right = [(i, i + 1) for i in range(length) if (i + 1) % columns]
    return right + [(i, i + columns) for i in range(length - columns)]


def shift_modes(length: int) -> Tensor:
    """[2, N] the two readings of the stutter toy: the words 1..N, and the same words one place later.

    "The dog was walking along" and "Once the dog was walking": where the first has its word i, the second has its
    word i-1, so position i taken from one and position i+1 from the other hold the same word.
    """
    return torch.stack([torch.arange(1, length + 1), torch.arange(length)])


def shift_joint(length: int, coupling: float) -> Table:
    """p(x) ∝ Σ_m exp(coupling · #{i : x_i = mode_m,i}) over N + 1 words and two modes that differ by a shift."""
    match = coupling * (shift_modes(length)[..., None] == torch.arange(length + 1)).double()  # [2, N, V]
    first, second = (torch.stack(torch.meshgrid(*mode, indexing="ij")).sum(0) for mode in match)
    return Table(torch.logaddexp(first, second))


def _hmm(n: int, coupling: float, vocab: int, generator: torch.Generator) -> Table:
    """As many hidden states as words; both stay put more, and speak more clearly, as the coupling grows."""
    eye = torch.eye(vocab, dtype=torch.float64)
    noise = torch.rand(2, vocab, vocab, generator=generator, dtype=torch.float64) - 0.5
    transition = torch.softmax(coupling * (2 * eye + noise[0]), -1)
    emission = torch.softmax(coupling * (2 * eye + noise[1]), -1)
    return hidden_markov(torch.full((vocab,), 1.0 / vocab, dtype=torch.float64), transition, emission, n)


# name -> (edges among n positions, maker). Ising worlds are binary; the shift world has n + 1 words.
_Maker = Callable[[int, float, int, torch.Generator], Table]
_WORLDS: dict[str, tuple[Callable[[int], list[tuple[int, int]]], _Maker]] = {
    "random": (clique_edges, lambda n, c, v, g: Table(c * torch.randn([v] * n, generator=g, dtype=torch.float64))),
    "ising-chain": (chain_edges, lambda n, c, v, g: ising(chain_edges(n), n, c)),
    "ising-grid": (grid_edges, lambda n, c, v, g: ising(grid_edges(n), n, c)),
    "ising-clique": (clique_edges, lambda n, c, v, g: ising(clique_edges(n), n, c)),
    "hmm": (chain_edges, _hmm),
    "shift": (chain_edges, lambda n, c, v, g: shift_joint(n, c)),
}
WORLD_NAMES = tuple(_WORLDS)


def make_world(name: str, *, n: int = 6, coupling: float = 1.0, seed: int = 0, vocab: int = 2) -> World:
    """The world called ``name``, or the one in a .json or .npy file of probabilities of shape [V]*N.

    Args:
        name: one of ``WORLD_NAMES``, or a path.
        n: number of positions (a file has its own).
        coupling: strength of the dependence; 0 is independence.
        seed: of the random and hmm worlds.
        vocab: words of the random and hmm worlds.

    Raises:
        AnyorderError: an unknown name, a size out of range, or a table that is no distribution.
    """
    if Path(name).suffix in {".json", ".npy"}:
        return _from_file(Path(name))
    choose(name, WORLD_NAMES, "world", also=", or a .json/.npy file")
    if n < 1:
        raise AnyorderError(f"a world needs at least one position, not {n}: use --n 2 or more")
    if vocab < 2:
        raise AnyorderError(f"a world needs at least two words, not {vocab}: use --vocab 2 or more")
    if not math.isfinite(coupling):
        raise AnyorderError(f"the coupling must be a finite number, not {coupling}")
    words = {"random": vocab, "hmm": vocab, "shift": n + 1}.get(name, 2)
    # A table holds its joint, the list of its states and a few temporaries of that size.
    check_memory(8.0 * 2.0 ** min(n * math.log2(words), 900) * (n + 4), f"a table of {words}^{n} states")
    edges, make = _WORLDS[name]
    table = make(n, coupling, vocab, torch.Generator().manual_seed(seed))
    finite = table.log_joint[torch.isfinite(table.log_joint)]
    if float(finite.max() - finite.min()) > MAX_LOG_RANGE:
        raise AnyorderError(f"coupling {coupling} on {n} positions leaves float64's range: use a smaller one")
    return World(name, table, coupling, tuple(edges(n)))


def _from_file(path: Path) -> World:
    """Read and check a table of probabilities."""
    try:
        p = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.asarray(parse_json(path.read_text()))
        p = p.astype(np.float64)
    except FileNotFoundError:
        raise AnyorderError(f"no such world file: {path}: check its name") from None
    except Exception as error:  # numpy's reader raises anything, down to errors of Python's own tokenizer
        why = " ".join(str(error).split()) or type(error).__name__
        raise AnyorderError(f"{path} is not a table of numbers of shape [V]*N ({why}): write it again") from None
    if p.ndim == 0 or len(set(p.shape)) != 1 or p.shape[0] < 2:
        raise AnyorderError(f"{path} has shape {p.shape}: a world needs the same V >= 2 along each of its N axes")
    if not np.isfinite(p).all() or (p < 0).any():
        raise AnyorderError(f"{path} holds negative or non-finite entries: give probabilities")
    if abs(p.sum() - 1.0) > 1e-6:
        raise AnyorderError(f"{path} sums to {p.sum():.6g}, not 1: divide the table by its sum")
    table = Table(torch.from_numpy(p).log())
    return World(str(path), table, float("nan"), tuple(clique_edges(p.ndim)))


def check_memory(needed: float, what: str) -> None:
    """Refuse what would not fit in half of the free memory: these are estimates."""
    require_memory(needed, what, "use fewer positions or words", share=0.5)


def parse_numbers(text: str, what: str = "coupling") -> list[float]:
    """``0.5``, ``0.2,0.4``, ``0.2…2.0`` (also ``..``; ten points), ``0.2:2.0:19`` (start, stop, count), or a mix."""
    numbers: list[float] = []
    for part in text.split(","):
        try:
            ends = [float(x) for x in re.split(r"…|\.{2,3}(?=[-\d.])|:", part.strip())]
            match ends:
                case [value]:
                    numbers.append(value)
                case [start, stop]:
                    numbers += np.linspace(start, stop, 10).tolist()
                case [start, stop, count] if count == int(count) and count >= 2:
                    numbers += np.linspace(start, stop, int(count)).tolist()
                case _:
                    raise ValueError
        except ValueError:
            raise AnyorderError(f"cannot read {what} {part!r}: write 0.5, 0.2,0.4, 0.2…2.0 or 0.2:2.0:10") from None
    if not all(math.isfinite(x) for x in numbers):
        raise AnyorderError(f"{what} must be finite numbers, not {text!r}")
    return [round(x, 12) for x in numbers]


def parse_blocks(text: str, n: int) -> list[int]:
    """``1,2,6`` or ``1..6`` -> block sizes, each between 1 and n."""
    blocks: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:\s*(?:…|\.{2,3}|-)\s*(\d+))?\s*", part)
        if not found:
            raise AnyorderError(f"cannot read block sizes {part!r}: write 1,2,3 or 1..6")
        first = int(found[1])
        blocks += range(first, int(found[2] or first) + 1)
    for k in blocks:
        if not 1 <= k <= n:
            raise AnyorderError(f"a block of {k} in a world of {n} positions: use sizes from 1 to {n}")
    return sorted(set(blocks))
