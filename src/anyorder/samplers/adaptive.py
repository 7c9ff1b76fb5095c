"""Gibbs with blocks chosen by measured dependence: the "dependent" sampler Li et al. 2024 leave to future work."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.draw import Draw, Warper, ask, draw_at, first_among, inverse_cdf, of_rows, pack, place, uniforms
from anyorder.samplers.gibbs import candidates
from anyorder.types import Conditionals, Info, Randomness, Sampler

# (tokens [B, N], free [B, N]) -> [B, N, N] influence in [0, 1], and the rows of the model it took.
Influence = Callable[[Tensor, Tensor], tuple[Tensor, int]]


class AdaptiveState(NamedTuple):
    """A chain per row, and what is known of the dependence between its positions."""

    tokens: Tensor  # [B, N]
    free: Tensor  # [B, N] bool
    tie: Tensor | None  # [B, N, N] dependence of two positions, symmetric, 0..1; None before the first step

    @property
    def done(self) -> Tensor:
        """[B] rows with nothing to resample."""
        return ~self.free.any(1)


def adaptive(
    conditionals: Conditionals,
    *,
    block: int = 3,
    blocks: int = 4,
    threshold: float = 0.05,
    sharpness: float = 8.0,
    influence: Influence | None = None,
    warper: Warper | None = None,
) -> Sampler[AdaptiveState]:
    """Resample strongly dependent positions together in sequence, weakly dependent ones side by side.

    The first step measures how the free positions depend on each other given the fixed ones, see
    :func:`mutual_influence`. A step then draws a uniform seed, grows a block S_1 around it, and further blocks that
    depend on those before by at most ``threshold``, see :func:`grow`. All blocks are masked, and the r-th members of
    all are drawn in one pass, given what stands outside and the members before: ``block`` passes for up to
    block · blocks tokens.

    The choice of blocks never looks at the tokens it is about to replace, so with one block (or independent ones)
    the joint of compatible conditionals is stationary; side by side, blocks err by the dependence let through. As in
    Gibbs, rows that hold masks first fill them, block by block.

    Args:
        conditionals: The model.
        block: Positions per block, drawn one after the other.
        blocks: At most this many side by side.
        threshold: Largest dependence (total variation, 0..1) between positions of two blocks.
        sharpness: A position joins a block with probability ∝ dependence^sharpness; 0 is uniform blocks.
        influence: Another source of the dependence, e.g. attention.
        warper: Temperature, top-k and the like.

    Returns:
        A sampler without an end.
    """
    if block < 1 or blocks < 1:
        raise AnyorderError("block and blocks of the adaptive sampler must be at least 1")
    if not 0 <= threshold <= 1:
        raise AnyorderError(f"the threshold is a total variation: choose it between 0 and 1, not {threshold}")
    if not sharpness >= 0:
        raise AnyorderError(f"sharpness must not be negative, not {sharpness}: 0 is uniform blocks")

    def init(tokens: Tensor, free: Tensor) -> AdaptiveState:
        return AdaptiveState(tokens.clone(), free.clone(), None)

    def step(generator: Randomness, state: AdaptiveState) -> tuple[AdaptiveState, Info]:
        tokens, free, tie = state
        keys, join, u, show = uniforms(generator, tokens, 4)
        rows_sent = 0
        if tie is None:
            if influence is None:
                found, rows_sent = mutual_influence(conditionals, tokens, free, show)
            else:
                found, rows_sent = influence(tokens, free)
            tie = torch.maximum(found, found.transpose(1, 2))  # either way
        allowed = candidates(tokens, free, conditionals.mask_id)
        members = grow(tie, allowed, keys, join, block, blocks, threshold, sharpness)  # [B, blocks, block]

        tokens = place(tokens, members.flatten(1), conditionals.mask_id)
        draws: list[Draw] = []
        for column in members.unbind(2):  # the r-th member of every block, [B, blocks]
            draw, sent = draw_at(conditionals, tokens, column, u, warper)
            tokens = place(tokens, column, draw.tokens)
            draws.append(draw)
            rows_sent += sent
        positions = torch.cat(members.unbind(2), 1)  # in the order they were drawn
        merged = Draw(*(torch.cat(parts, 1) for parts in zip(*draws, strict=True)))
        positions, merged = _left(positions, merged)
        return AdaptiveState(tokens, free, tie), Info(positions, *merged, rows_sent)

    return Sampler(init, step, ends=False)


def mutual_influence(conditionals: Conditionals, tokens: Tensor, free: Tensor, u: Tensor) -> tuple[Tensor, int]:
    """How much a surprise at j changes the conditional at i: TV(q(x_i | x_F̄), q(x_i | x_F̄, x_j = a)), i, j in F.

    F = ``free`` [B, N] is masked, so the measure depends on the fixed tokens alone. a is drawn from q(x_j | x_F̄)
    without its most probable token: where the context all but settles x_j that token tells nothing new, and the
    most dependent positions would seem independent (compare Dobrushin's influence, which also asks for the worst).
    One row for x_F̄ and one for each j tell all pairs: |F| + 1 rows.

    Returns:
        [B, N, N] the influence of j on i at [j, i], 0 outside F and on the diagonal, and the rows sent.
    """
    length = tokens.shape[1]
    masked = tokens.masked_fill(free, conditionals.mask_id)
    asked = pack(free)  # [B, K]
    (base,), rows_sent = ask(conditionals, masked, asked, lambda log_q, rows: (log_q,))
    # scatter, not an in-place write: the conditionals may hand out a tensor they keep.
    surprise = base.scatter(-1, base.argmax(-1, keepdim=True), -torch.inf)
    # Where only one token is possible nothing else is left: it stays, and shows no influence.
    surprise = torch.where(torch.isneginf(surprise).all(-1, keepdim=True), base, surprise)
    shown_token = inverse_cdf(surprise, u.gather(1, asked.clamp(min=0)))  # [B, K]
    row, slot = (asked >= 0).nonzero(as_tuple=True)  # [R] one for every j of every row
    j = asked[row, slot]
    shown = masked[row].scatter(1, j[:, None], shown_token[row, slot][:, None])
    others = torch.where(asked[row] == j[:, None], -1, asked[row])  # [R, K]

    def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        return ((log_q.exp() - base[row[rows]].exp()).abs().sum(-1).float() / 2,)

    (tv,), sent = ask(of_rows(conditionals, row), shown, others, read)  # [R, K]
    # The spare last column takes the slots that asked nothing.
    found = torch.zeros((*tokens.shape, length + 1), device=tokens.device)
    found[row[:, None], j[:, None], torch.where(others >= 0, others, length)] = tv
    return found[..., :length], rows_sent + sent


def grow(
    tie: Tensor,
    allowed: Tensor,
    keys: Tensor,
    join: Tensor,
    block: int,
    blocks: int,
    threshold: float,
    sharpness: float,
) -> Tensor:
    """Blocks of positions, [B, blocks, block], -1 where a row has no more.

    Seeds come in the order of the uniforms ``keys``, so each is uniform among what is left. A block then takes in one
    position after the other, with probability ∝ (strongest tie to any member)^sharpness: a race of exponential clocks
    -log ``join``, set back by the time that has passed when a position joins. They have no memory, so what is left on
    them is as good as new, and the weights may change between two joins. A block stops short where nothing left is
    tied to it by more than ``threshold``; what is not tied to any block so far by more than that may seed another.
    """
    clock = -torch.log(join.clamp_min(1e-300))  # [B, N]
    left = allowed.clone()
    out = []
    for _ in range(blocks):
        position = first_among(keys, left, 1)  # [B, 1]
        members = [position]
        nearest = torch.zeros_like(keys)  # [B, N] strongest tie to any member
        for _ in range(block - 1):
            left = place(left, position, 0)
            nearest = torch.maximum(nearest, _ties_of(tie, position))
            running = left & (nearest > threshold)
            # In logs: a weak tie to the eighth power is below float64.
            speed = sharpness * nearest.log()
            rings = clock.log() - speed
            position = first_among(rings, running, 1)
            passed = rings.gather(1, position.clamp(min=0))
            clock = torch.where(running, (clock - (speed + passed).exp()).clamp_min(1e-300), clock)
            members.append(position)
        nearest = torch.maximum(nearest, _ties_of(tie, position))
        left = place(left, position, 0) & (nearest <= threshold)
        out.append(torch.cat(members, 1))
    return torch.stack(out, 1)


def _ties_of(tie: Tensor, position: Tensor) -> Tensor:
    """[B, N] the ties of one position per row, none where it is -1."""
    index = position.clamp(min=0)[..., None].expand(-1, -1, tie.shape[2])
    return tie.gather(1, index).squeeze(1).double() * (position >= 0)


def _left(positions: Tensor, draw: Draw) -> tuple[Tensor, Draw]:
    """Slots that hold a position first, those at -1 last, as Info promises."""
    order = torch.argsort((positions < 0).long(), dim=1, stable=True)
    return positions.gather(1, order), Draw(*(part.gather(1, order) for part in draw))
