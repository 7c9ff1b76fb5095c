"""Algorithm 1 of Liao et al. 2020: generate one token at a time, in any word order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.samplers.draw import (
    Draw,
    Warper,
    ask,
    cells,
    draw_at,
    draw_from,
    first_among,
    masked_draw,
    pack,
    place,
    uniforms,
)
from anyorder.samplers.orders import UNCERTAINTY, fixed_rank, parse
from anyorder.types import Conditionals, Info, Ordered, Randomness, Sampler


class AnyOrderState(NamedTuple):
    """The texts so far, and which of their blanks are still open."""

    tokens: Tensor  # [B, N], mask_id at the open blanks
    open: Tensor  # [B, N] bool
    rank: Tensor | None  # [B, N] when each position's turn comes, None if that is decided as we go
    memory: Any = None  # what a model read in order keeps of what it has read

    @property
    def done(self) -> Tensor:
        """[B] rows without an open blank."""
        return ~self.open.any(1)


def any_order(
    conditionals: Conditionals | Ordered,
    *,
    order: str | Sequence[int] | Tensor = "random",
    warper: Warper | None = None,
) -> Sampler[AnyOrderState]:
    """x_σ(t) ~ q(· | x_σ(1), …, x_σ(t-1)) for t = 1..n, with a permutation σ of each row's own free positions.

    By the chain rule the text has probability Π_t q(x_σ(t) | x_σ(<t)): if the conditionals are those of one joint,
    every order draws from that joint exactly. ``confidence`` and ``entropy`` choose the next position from the
    conditionals at all open blanks, which costs the head there but no further pass.

    Args:
        conditionals: The model, read in full for every token, or read in order, each token once.
        order: ``left-to-right``, ``right-to-left``, ``random`` (each row its own), ``confidence``, ``entropy``,
            ``"given:3,7,1"``, or positions [n] or [B, n] (shorter rows end in -1).
        warper: Temperature, top-k and the like, see :func:`anyorder.samplers.warpers.warper`.

    Returns:
        A sampler whose step fills one blank in every row that has one.
    """
    sigma = parse(order)
    doubt = UNCERTAINTY.get(sigma) if isinstance(sigma, str) else None
    ordered = conditionals if isinstance(conditionals, Ordered) else None
    draw_next: _Next
    if isinstance(conditionals, Ordered):
        draw_next = partial(_in_order, conditionals, doubt, warper)
    elif doubt is None:
        draw_next = partial(_by_rank, conditionals, warper)
    else:
        draw_next = partial(_by_doubt, conditionals, doubt, warper)

    def init(tokens: Tensor, free: Tensor) -> AnyOrderState:
        blank = tokens.masked_fill(free, conditionals.mask_id)
        memory = None if ordered is None else ordered.begin(blank, ~free)
        return AnyOrderState(blank, free.clone(), fixed_rank(sigma, free), memory)

    def step(generator: Randomness, state: AnyOrderState) -> tuple[AnyOrderState, Info]:
        keys, u = uniforms(generator, state.tokens, 2)
        # The least of fresh uniforms over the open blanks is a uniform choice among them, so that the whole sequence
        # of choices is a uniform permutation.
        positions, draw, rows_sent, memory = draw_next(state, keys if state.rank is None else state.rank, u)
        tokens = place(state.tokens, positions, draw.tokens)
        still_open = place(state.open, positions, 0)
        return AnyOrderState(tokens, still_open, state.rank, memory), Info(positions, *draw, rows_sent)

    return Sampler(init, step)


# (state, [B, N] the least of which goes next, uniforms [B, N]) -> positions [B, 1], their draw, rows sent, the memory
_Next = Callable[[AnyOrderState, Tensor, Tensor], tuple[Tensor, Draw, int, Any]]
_Doubt = Callable[[Tensor], Tensor]


def _by_rank(
    conditionals: Conditionals, warper: Warper | None, state: AnyOrderState, rank: Tensor, u: Tensor
) -> tuple[Tensor, Draw, int, Any]:
    """The next token in a known order, by a model that reads the whole text for it."""
    positions = first_among(rank, state.open, 1)
    return positions, *draw_at(conditionals, state.tokens, positions, u, warper), None


def _by_doubt(
    conditionals: Conditionals, doubt: _Doubt, warper: Warper | None, state: AnyOrderState, rank: Tensor, u: Tensor
) -> tuple[Tensor, Draw, int, Any]:
    """The token of the least doubt, by a model that reads the whole text for it."""
    asked = pack(state.open)  # [B, K]

    def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        where = asked[rows]
        slot = doubt(log_q).masked_fill(where < 0, torch.inf).argmin(1, keepdim=True)  # [b, 1]
        position = where.gather(1, slot)
        chosen = log_q.gather(1, slot[..., None].expand(-1, -1, log_q.shape[-1]))  # [b, 1, V]
        return position, *draw_from(chosen, u[rows].gather(1, position), warper)

    (position, *draw), rows_sent = ask(conditionals, state.tokens, asked, read)
    position = torch.where(state.open.any(1, keepdim=True), position, -1)
    return position, masked_draw(Draw(*draw), position), rows_sent, None


def _in_order(
    ordered: Ordered, doubt: _Doubt | None, warper: Warper | None, state: AnyOrderState, rank: Tensor, u: Tensor
) -> tuple[Tensor, Draw, int, Any]:
    """The next token, in a known order or by doubt, by a model that keeps what it has read."""
    questions = []
    if doubt is not None:
        asked = pack(state.open)  # [B, K]
        most = cells(asked.device) // max(1, len(asked) * ordered.vocab_size)
        questions = list(asked.split(max(1, most), 1))
        rank = place(rank, asked, torch.cat([doubt(ordered.ask(state.memory, part)) for part in questions], 1))
    positions = first_among(rank, state.open, 1)
    log_q = ordered.ask(state.memory, positions)
    draw = masked_draw(draw_from(log_q, u.gather(1, positions.clamp(min=0)), warper), positions)
    rows_sent = sum(int((part >= 0).any(1).sum()) for part in (*questions, positions))
    return positions, draw, rows_sent, ordered.read(state.memory, positions, draw.tokens)
