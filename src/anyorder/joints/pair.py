"""What every joint over two positions has in common: it is read in tiles of rows, never as one V×V matrix."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

_TILE = 2**20  # cells of one tile: 4 MB in float32 stays in cache, and each operation on it is long enough to pay

Rows = slice | Tensor  # which tokens a: a range, or their ids


def tiles(rows: int, width: int | None = None) -> Iterator[slice]:
    """Cut the rows of a table (V×V unless ``width`` says otherwise) into ranges that make one tile each."""
    step = max(1, _TILE // (width or rows))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def log_sums(rows: Callable[[slice], Tensor], vocab_size: int) -> tuple[Tensor, Tensor]:
    """log Σ_b and log Σ_a of exp(rows), both [V] in float64, in one pass over the tiles."""
    over_b, over_a = [], None
    for part in tiles(vocab_size):
        tile = rows(part)
        over_b.append(torch.logsumexp(tile, 1).double())
        columns = torch.logsumexp(tile, 0).double()
        over_a = columns if over_a is None else torch.logaddexp(over_a, columns)
    assert over_a is not None
    return torch.cat(over_b), over_a


def check_tables(log_a_given_b: Tensor, log_b_given_a: Tensor) -> int:
    """The vocabulary size of two tables [V, V]; anything else is a programming error."""
    shape = tuple(log_a_given_b.shape)
    if len(shape) != 2 or shape[0] != shape[1] or tuple(log_b_given_a.shape) != shape:
        raise ValueError(f"two tables [V, V] are needed, not {shape} and {tuple(log_b_given_a.shape)}")
    return shape[0]


class PairJoint(ABC):
    """A :class:`anyorder.types.Joint` over tokens (a, b): each construction says how to read a cell and a row.

    Attributes:
        vocab_size: V.
        log_marginals: log p(a) and log p(b), [V] each, float64.
    """

    vocab_size: int
    log_marginals: tuple[Tensor, Tensor]

    @abstractmethod
    def log_prob(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        """log p(a, b), elementwise over broadcast token ids."""

    @abstractmethod
    def rows(self, a: Rows) -> Tensor:
        """log p(a, ·) for a range or list of tokens a, [R, V]."""

    def marginal(self, axis: int) -> Tensor:
        """Log marginal [V] of position ``axis`` (0 = a, 1 = b)."""
        return self.log_marginals[_axis(axis)]

    def conditional(self, axis: int, token: int) -> Tensor:
        """Log conditional [V] of the *other* position, given that position ``axis`` holds ``token``.

        A token of probability zero has no conditional; it is answered with the uniform distribution.
        """
        every = torch.arange(self.vocab_size)
        cells = (self.log_prob(token, every) if _axis(axis) == 0 else self.log_prob(every, token)).double()
        if not torch.isfinite(cells.max()):
            return torch.full_like(cells, -math.log(self.vocab_size))
        return torch.log_softmax(cells, -1)

    def top(self, k: int) -> list[tuple[int, int, float]]:
        """The k most probable pairs as (a, b, probability), best first."""
        v = self.vocab_size
        values, index = torch.empty(0), torch.empty(0, dtype=torch.long)
        for part in tiles(v):
            tile = self.rows(part).flatten()
            best = tile.topk(min(k, tile.numel()))
            values = torch.cat([values.to(best.values), best.values])
            index = torch.cat([index.to(best.indices.device), best.indices + part.start * v])
            keep = values.topk(min(k, values.numel()))
            values, index = keep.values, index[keep.indices]
        return [(i // v, i % v, math.exp(x)) for i, x in zip(index.tolist(), values.tolist(), strict=True)]

    def sample(self, generator: torch.Generator, n: int) -> Tensor:
        """[n, 2] independent draws: a from its marginal, then b from its conditional."""
        a = torch.multinomial(self.marginal(0).exp(), n, replacement=True, generator=generator)
        b = torch.empty_like(a)
        for part in torch.arange(n).split(max(1, _TILE // self.vocab_size)):
            p = torch.softmax(self.rows(a[part]).double(), -1)
            b[part] = torch.multinomial(p, 1, generator=generator).squeeze(1)
        return torch.stack([a, b], 1)


def _axis(axis: int) -> int:
    if axis not in (0, 1):
        raise ValueError(f"a pair has axes 0 (a) and 1 (b), not {axis}")
    return axis
