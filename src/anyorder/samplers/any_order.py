"""Algorithm 1 of Liao et al. 2020: generate one token at a time, in any word order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.samplers.draw import (
    Draw,
    Warper,
    ask,
    draw_at,
    draw_from,
    first_among,
    masked_draw,
    pack,
    place,
    uniforms,
)
from anyorder.samplers.orders import UNCERTAINTY, fixed_rank, parse
from anyorder.types import Conditionals, Info, Sampler


class AnyOrderState(NamedTuple):
    """The texts so far, and which of their blanks are still open."""

    tokens: Tensor  # [B, N], mask_id at the open blanks
    open: Tensor  # [B, N] bool
    rank: Tensor | None  # [B, N] when each position's turn comes, None if that is decided as we go

    @property
    def done(self) -> Tensor:
        """[B] rows without an open blank."""
        return ~self.open.any(1)


def any_order(
    conditionals: Conditionals, *, order: str | Sequence[int] | Tensor = "random", warper: Warper | None = None
) -> Sampler:
    """x_σ(t) ~ q(· | x_σ(1), …, x_σ(t-1)) for t = 1..n, with a permutation σ of each row's own free positions.

    By the chain rule the text has probability Π_t q(x_σ(t) | x_σ(<t)): if the conditionals are those of one joint,
    every order draws from that joint exactly. ``confidence`` and ``entropy`` choose the next position from the
    conditionals at all open blanks, which costs the head there but no further pass.

    Args:
        conditionals: The model.
        order: ``left-to-right``, ``right-to-left``, ``random`` (each row its own), ``confidence``, ``entropy``,
            ``"given:3,7,1"``, or positions [n] or [B, n] (shorter rows end in -1).
        warper: Temperature, top-k and the like, see :func:`anyorder.samplers.warpers.warper`.

    Returns:
        A sampler whose step fills one blank in every row that has one.
    """
    sigma = parse(order)

    def init(tokens: Tensor, free: Tensor) -> AnyOrderState:
        blank = tokens.masked_fill(free, conditionals.mask_id)
        return AnyOrderState(blank, free.clone(), fixed_rank(sigma, free))

    def step(generator: torch.Generator, state: AnyOrderState) -> tuple[AnyOrderState, Info]:
        tokens, still_open, rank = state
        keys, u = uniforms(generator, tokens), uniforms(generator, tokens)
        if isinstance(sigma, str) and sigma in UNCERTAINTY:
            positions, draw, passes = _least_uncertain(tokens, still_open, u)
        else:
            # The least of fresh uniforms over the open blanks is a uniform choice among them, so that the whole
            # sequence of choices is a uniform permutation.
            positions = first_among(keys if rank is None else rank, still_open, 1)
            draw, passes = draw_at(conditionals, tokens, positions, u, warper)
        tokens = place(tokens, positions, draw.tokens)
        still_open = place(still_open, positions, 0)
        return AnyOrderState(tokens, still_open, rank), Info(positions, *draw, passes)

    def _least_uncertain(tokens: Tensor, still_open: Tensor, u: Tensor) -> tuple[Tensor, Draw, int]:
        asked = pack(still_open)  # [B, K]
        score = UNCERTAINTY[str(sigma)]

        def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
            where = asked[rows]
            slot = score(log_q).masked_fill(where < 0, torch.inf).argmin(1, keepdim=True)  # [b, 1]
            position = where.gather(1, slot)
            chosen = log_q.gather(1, slot[..., None].expand(-1, -1, log_q.shape[-1]))  # [b, 1, V]
            return position, *draw_from(chosen, u[rows].gather(1, position), warper)

        (position, *draw), passes = ask(conditionals, tokens, asked, read)
        position = torch.where(still_open.any(1, keepdim=True), position, -1)
        return position, masked_draw(Draw(*draw), position), passes

    return Sampler(init, step)
