"""k-block Gibbs sampling (Li et al. 2024): resample a uniformly drawn set of k positions, again and again."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError, choose
from anyorder.samplers.draw import Warper, draw_at, draw_in_sequence, first_among, place, uniforms
from anyorder.types import Conditionals, Info, Randomness, Sampler

MODES = ("parallel", "sequential")


class GibbsState(NamedTuple):
    """A chain per row."""

    tokens: Tensor  # [B, N]
    free: Tensor  # [B, N] bool, the positions that are resampled

    @property
    def done(self) -> Tensor:
        """[B] rows with nothing to resample."""
        return ~self.free.any(1)


def gibbs(
    conditionals: Conditionals, *, block: int = 1, mode: str = "parallel", warper: Warper | None = None
) -> Sampler[GibbsState]:
    """Draw S uniformly among the size-k sets of a row's free positions, mask it, resample x_S given x_S̄.

    ``parallel`` draws Π_{i∈S} q(x_i | x_S̄), a product, as one forward pass of a transformer does it: 1 pass per
    step, exact for k = 1 only. ``sequential`` draws x_S exactly, position by position inside the block in a
    uniformly random order (Algorithm 1 on S): k passes per step. With compatible conditionals the joint is
    stationary for k = 1 and for ``sequential`` at any k; ``parallel`` at k > 1 has a stationary law of its own.

    A chain starts from the tokens it is given. Where a free position holds ``mask_id`` the chain has no state
    yet: such a row spends its first steps filling its masks, k uniformly chosen ones per step in the given mode, and
    moves as a chain only once none is left (so a row of n masks starts from a draw of ⌈n/k⌉ steps).

    Args:
        conditionals: The model.
        block: k; rows with fewer free positions resample them all.
        mode: ``parallel`` or ``sequential``.
        warper: Temperature, top-k and the like.

    Returns:
        A sampler without an end: say how many steps to run.
    """
    if block < 1:
        raise AnyorderError(f"a Gibbs block has at least one position, not {block}: choose block=1 or more")
    choose(mode, MODES, "Gibbs mode")

    def init(tokens: Tensor, free: Tensor) -> GibbsState:
        return GibbsState(tokens.clone(), free.clone())

    def step(generator: Randomness, state: GibbsState) -> tuple[GibbsState, Info]:
        tokens, free = state
        keys, u = uniforms(generator, tokens, 2)
        # [B, k]: S, in random order
        positions = first_among(keys, candidates(tokens, free, conditionals.mask_id), block)
        masked = place(tokens, positions, conditionals.mask_id)
        if mode == "sequential":
            tokens, draw, rows_sent = draw_in_sequence(conditionals, masked, positions, u, warper)
        else:
            draw, rows_sent = draw_at(conditionals, masked, positions, u, warper)
            tokens = place(masked, positions, draw.tokens)
        return GibbsState(tokens, free), Info(positions, *draw, rows_sent)

    return Sampler(init, step, ends=False)


def candidates(tokens: Tensor, free: Tensor, mask_id: int) -> Tensor:
    """[B, N] the positions a chain may resample now: a row's masks while it has any, else all that are free."""
    blank = free & (tokens == mask_id)
    return torch.where(blank.any(1, keepdim=True), blank, free)
