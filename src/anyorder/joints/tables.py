"""The two conditional tables of a pair of positions, from O(V) passes of the model (section 2.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.joints.passes import conditional_rows
from anyorder.memory import require_memory
from anyorder.types import Conditionals

MATRICES = 3  # V×V at the peak: the two tables, and C of Arnold–Gokhale


@dataclass(frozen=True)
class PairTables:
    """Everything a construction may ask of the model about positions a and b of one text."""

    log_a_given_b: Tensor  # [V, V] log q(a | b), a row for each b
    log_b_given_a: Tensor  # [V, V] log q(b | a), a row for each a
    log_a: Tensor  # [V] log q(a) with both positions masked
    log_b: Tensor  # [V] log q(b) with both positions masked
    log_z_a_given_b: Tensor | None = None  # [V] logits = log_a_given_b + log_z_a_given_b[:, None]
    log_z_b_given_a: Tensor | None = None

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.log_a.shape[0]


def pair_tables(
    conditionals: Conditionals,
    tokens: Tensor,
    a: int,
    b: int,
    *,
    values: Tensor | None = None,
    report: Callable[[int], object] = lambda rows: None,
) -> PairTables:
    """Ask the model for both tables over the whole vocabulary, V rows in each direction, or over some of its tokens.

    Args:
        conditionals: the model.
        tokens: [N] the text; what stands at a and b does not matter.
        a: the first position.
        b: the second position.
        values: [v] ids of the tokens that the tables are over, given that both positions hold one of them; None: all.
        report: called with the number of rows just finished, for a progress bar.

    Raises:
        AnyorderError: the tables would not fit in memory.
    """
    check_pair(len(tokens), a, b)
    check_memory(conditionals.vocab_size if values is None else len(values))
    log_a, log_b = masked_marginals(conditionals, tokens, a, b)
    if values is not None:
        log_a, log_b = log_a[values].log_softmax(-1), log_b[values].log_softmax(-1)
    # Both are laid out [a, b] in memory, as the constructions read them.
    ab, z_a = _table(conditionals, tokens, values, vary=b, ask=a, transposed=True, report=report)
    ba, z_b = _table(conditionals, tokens, values, vary=a, ask=b, transposed=False, report=report)
    return PairTables(ab, ba, log_a, log_b, z_a, z_b)


def _table(
    conditionals: Conditionals,
    tokens: Tensor,
    values: Tensor | None,
    *,
    vary: int,
    ask: int,
    transposed: bool,
    report: Callable[[int], object],
) -> tuple[Tensor, Tensor | None]:
    """(log q [V, V], log z [V] or None), filled a micro-batch at a time so that nothing else of that size exists."""
    given = torch.arange(conditionals.vocab_size) if values is None else values
    v = len(given)
    table: Tensor | None = None
    log_z: list[Tensor] = []
    for part, log_q, z in conditional_rows(conditionals, tokens, vary, ask, given):
        if values is not None:
            log_q = log_q[:, values]
            among = log_q.logsumexp(-1)  # the rest of the row's mass is left out, and the logits stay what they are
            log_q, z = log_q - among[:, None], None if z is None else z + among
        if table is None:
            table = torch.empty(v, v, dtype=log_q.dtype)
            table = table.T if transposed else table
        table[part] = log_q
        log_z += [] if z is None else [z]
        report(part.stop - part.start)
    assert table is not None
    return table, torch.cat(log_z) if log_z else None


def masked_marginals(conditionals: Conditionals, tokens: Tensor, *positions: int) -> tuple[Tensor, ...]:
    """log q_{t|S̄} of each position, [V]: all of them masked, one pass (the factors of eq 1)."""
    row = tokens.clone()
    row[list(positions)] = conditionals.mask_id
    return conditionals(row[None], torch.tensor([positions]))[0].unbind()


def check_pair(length: int, a: int, b: int) -> None:
    """Two different positions inside the text."""
    if a == b or not (0 <= a < length and 0 <= b < length):
        raise AnyorderError(f"a pair needs two different positions of the {length} in the text, not {a} and {b}")


def check_memory(vocab_size: int) -> None:
    """Refuse before the first pass tables that would not fit after the last."""
    require_memory(
        MATRICES * vocab_size**2 * 4.0,
        f"the exact joint over {vocab_size} tokens",
        "use the adaptive support instead (--tail 1e-3, or tail=1e-3 in Python)",
    )
