"""What every sampler shares: asking the model, and drawing tokens in a way that a seed fixes for good.

Randomness is one uniform per (row, position) and use, drawn for the whole batch whether or not a row needs it. So a
row's text never depends on the micro-batch, the number of threads, or what happens in the other rows; with a source per
row (``seeds.py``) not on its place in the batch either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.types import Conditionals, Randomness, RowWise

# Scores in, scores out, over [R, V]: the signature of transformers' logits warpers (the ids are not used).
Warper = Callable[[Tensor, Tensor], Tensor]

# Answers (rows x positions x vocabulary) held at once: 256 MB of float32. On a CPU 16 MB per thread, which stay near
# its caches and are hardly ever handed back to the system in between.
_CELLS = 2**26
_CELLS_CPU = 2**22
# ... but never fewer rows than make a decent matrix product.
_TOKENS = 512


def cells(device: torch.device) -> int:
    """Answers (rows x positions x vocabulary) to hold at once."""
    return min(_CELLS, _CELLS_CPU * torch.get_num_threads()) if device.type == "cpu" else _CELLS


class Draw(NamedTuple):
    """Tokens drawn at some positions, and what the model's own conditional thought of them."""

    tokens: Tensor  # [B, K]
    log_prob: Tensor  # [B, K] float64, under the unwarped conditional, 0 where nothing was asked
    entropy: Tensor  # [B, K] float64, nats


def uniforms(generator: Randomness, tokens: Tensor, count: int) -> tuple[Tensor, ...]:
    """``count`` tensors of one float64 uniform in [0, 1) for every row and position of ``tokens`` [B, N].

    A step asks once, for all it may need.
    """
    rows, length = tokens.shape
    if isinstance(generator, torch.Generator):
        u = torch.rand((count, rows, length), generator=generator, dtype=torch.float64, device=generator.device)
    else:
        u = generator.uniforms(rows, length, count)
    return u.to(tokens.device).unbind()


def inverse_cdf(scores: Tensor, u: Tensor) -> Tensor:
    """Tokens [...] whose cumulative probability under softmax(``scores`` [..., V]) first exceeds ``u`` [...].

    Summed in float64: float32 sums lose the tail of a large vocabulary, as float32 Gumbel noise does (arXiv
    2409.02908). A token of probability zero is never returned.
    """
    cdf = torch.softmax(scores, -1).cumsum(-1, dtype=torch.float64)
    total = cdf[..., -1]
    # u < 1, but u * total may round up to total, past the last token of positive probability.
    target = torch.minimum(u * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cdf, target[..., None].contiguous(), right=True).squeeze(-1)


def entropy_of(log_q: Tensor) -> Tensor:
    """Entropy in nats over the last axis of ``log_q``; impossible tokens contribute nothing."""
    # 0 · -inf would be NaN, 0 · the smallest number is 0; `special.entr` would take the logarithm again.
    return -(log_q.exp() * log_q.clamp(min=torch.finfo(log_q.dtype).min)).sum(-1).double()


def warped(log_q: Tensor, warper: Warper | None) -> Tensor:
    """Scores [..., V] to draw by."""
    if warper is None:
        return log_q
    flat = log_q.flatten(0, -2)
    return warper(flat.new_empty((flat.shape[0], 0), dtype=torch.long), flat).reshape(log_q.shape)


def draw_from(log_q: Tensor, u: Tensor, warper: Warper | None) -> Draw:
    """Draw at every (row, slot) of ``log_q`` [b, K, V] with the uniforms ``u`` [b, K]."""
    tokens = inverse_cdf(warped(log_q, warper), u)
    log_prob = log_q.gather(-1, tokens[..., None]).squeeze(-1).double()
    return Draw(tokens, log_prob, entropy_of(log_q))


def of_rows(conditionals: Conditionals, rows: Tensor) -> Conditionals:
    """``conditionals`` for the rows ``rows`` [b] of the batch, where they are not the same for all."""
    return conditionals.of_rows(rows) if isinstance(conditionals, RowWise) else conditionals


def ask(
    conditionals: Conditionals, tokens: Tensor, positions: Tensor, read: Callable[[Tensor, Tensor], tuple[Tensor, ...]]
) -> tuple[tuple[Tensor, ...], int]:
    """Put the questions ``positions`` [B, K] to the model and keep only what ``read`` takes from the answers.

    Rows that ask nothing (all -1) are not sent. ``read(log_q [b, K, V], rows [b])`` returns tensors whose first
    axis is b; they come back with first axis B, zero in the rows that were not sent.

    Returns:
        What was read, and the number of rows sent through the model.
    """
    rows = (positions >= 0).any(1).nonzero().squeeze(1)
    most = cells(tokens.device) // (positions.shape[1] * conditionals.vocab_size)
    limit = max(1, _TOKENS // tokens.shape[1], most)
    parts = []
    for chunk in rows.split(limit) if len(rows) else ():
        parts.append(read(of_rows(conditionals, chunk)(tokens[chunk], positions[chunk]), chunk))
    if not parts:
        nothing = tokens.new_empty((0, positions.shape[1], conditionals.vocab_size), dtype=torch.float32)
        parts.append(read(nothing, rows))
    answers = []
    for columns in zip(*parts, strict=True):
        column = torch.cat(columns)
        whole = column.new_zeros((tokens.shape[0], *column.shape[1:]))
        answers.append(whole.index_copy_(0, rows, column))
    return tuple(answers), len(rows)


def draw_at(
    conditionals: Conditionals, tokens: Tensor, positions: Tensor, u: Tensor, warper: Warper | None
) -> tuple[Draw, int]:
    """Draw independently at ``positions`` [B, K] (-1: nowhere), given ``tokens`` and the uniforms ``u`` [B, N]."""
    u = u.gather(1, positions.clamp(min=0))
    parts, rows_sent = ask(conditionals, tokens, positions, lambda log_q, rows: draw_from(log_q, u[rows], warper))
    return masked_draw(Draw(*parts), positions), rows_sent


def draw_in_sequence(
    conditionals: Conditionals, tokens: Tensor, positions: Tensor, u: Tensor, warper: Warper | None
) -> tuple[Tensor, Draw, int]:
    """Draw ``positions`` [B, K] one column after the other, each given those before it: exact, K passes.

    Returns:
        The new tokens [B, N], the draws [B, K], and the rows sent through the model.
    """
    draws, rows_sent = [], 0
    for column in positions.split(1, dim=1):
        draw, sent = draw_at(conditionals, tokens, column, u, warper)
        tokens = place(tokens, column, draw.tokens)
        draws.append(draw)
        rows_sent += sent
    return tokens, Draw(*(torch.cat(parts, 1) for parts in zip(*draws, strict=True))), rows_sent


def masked_draw(draw: Draw, positions: Tensor) -> Draw:
    """``draw`` with zeros where ``positions`` is -1, as :class:`anyorder.types.Info` promises."""
    return Draw(*(torch.where(positions >= 0, part, torch.zeros_like(part)) for part in draw))


def place(tokens: Tensor, positions: Tensor, values: Tensor | int) -> Tensor:
    """A copy of ``tokens`` [B, N] with ``values`` [B, K] at ``positions`` [B, K]; -1 places nothing."""
    length = tokens.shape[1]
    # A spare last column takes what is aimed at -1; without it such slots would overwrite a real position.
    spare = torch.cat([tokens, tokens.new_zeros((tokens.shape[0], 1))], 1)
    index = torch.where(positions >= 0, positions, length)
    values = values if isinstance(values, int) else values.to(tokens.dtype)
    return spare.scatter_(1, index, values)[:, :length]


def pack(mask: Tensor) -> Tensor:
    """[B, N] bool -> [B, K] positions that are True, ascending, ending in -1; K is the largest count, at least 1."""
    return first(torch.where(mask, 0.0, torch.inf).double(), mask.sum(1))


def first(rank: Tensor, count: Tensor | int) -> Tensor:
    """The ``count`` ([B], or one for all) positions of least ``rank`` [B, N] in each row, in that order, ending in -1.

    A position of infinite rank is never chosen; ties go to the left.
    """
    count = torch.isfinite(rank).sum(1).clamp(max=count)
    width = max(1, int(count.max())) if len(count) else 1
    order = torch.argsort(rank, dim=1, stable=True)[:, :width]
    return torch.where(torch.arange(width, device=rank.device) < count[:, None], order, -1)


def first_among(rank: Tensor, among: Tensor, count: Tensor | int) -> Tensor:
    """:func:`first` restricted to the positions ``among`` [B, N]."""
    rank = torch.where(among, rank, torch.inf)
    if isinstance(count, int) and count == 1:  # by far the most common, and no sort
        best = rank.min(1, keepdim=True)
        return torch.where(torch.isfinite(best.values), best.indices, -1)
    return first(rank, count)
