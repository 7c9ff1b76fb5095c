"""A sampler to copy: sweeps over the free positions from left to right, drawing each given all others.

Held to the same promises as every other in tests/samplers/test_sampler_contract.py; docs/adding-a-sampler.md explains.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.draw import Warper, draw_at, pack, place, uniforms
from anyorder.types import Conditionals, Info, Randomness, Sampler


class SweepState(NamedTuple):
    """The texts, and how far each row has come."""

    tokens: Tensor  # [B, N]
    free: Tensor  # [B, N] bool
    left: Tensor  # [B] tokens still to draw

    @property
    def done(self) -> Tensor:
        """[B] rows for which further steps change nothing."""
        return self.left == 0


def sweep(conditionals: Conditionals, *, sweeps: int = 2, warper: Warper | None = None) -> Sampler[SweepState]:
    """x_i ~ q(· | x_-i) for i = 1..n, ``sweeps`` times, from masks.

    The first sweep is Algorithm 1 from left to right, so with compatible conditionals it draws from their joint, and
    every later one leaves that joint as it is.
    """
    if sweeps < 1:
        raise AnyorderError(f"at least one sweep is needed, not {sweeps}")

    def init(tokens: Tensor, free: Tensor) -> SweepState:
        return SweepState(tokens.masked_fill(free, conditionals.mask_id), free.clone(), sweeps * free.sum(1))

    def step(generator: Randomness, state: SweepState) -> tuple[SweepState, Info]:
        tokens, free, left = state
        (u,) = uniforms(generator, tokens, 1)  # [B, N], once per step and for every row, needed or not
        turn = -left % free.sum(1).clamp(min=1)  # [B] which of its free positions a row draws now
        positions = pack(free).gather(1, turn[:, None])  # [B, 1]
        positions = torch.where(state.done[:, None], -1, positions)  # -1: nothing is asked, nothing is changed
        masked = place(tokens, positions, conditionals.mask_id)
        draw, rows = draw_at(conditionals, masked, positions, u, warper)
        after = SweepState(place(masked, positions, draw.tokens), free, (left - 1).clamp(min=0))
        return after, Info(positions, *draw, rows)

    return Sampler(init, step, ends=True)
