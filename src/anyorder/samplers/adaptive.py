"""Gibbs with blocks chosen by measured dependence: the "dependent" sampler Li et al. 2024 leave to future work."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.draw import Draw, Warper, ask, choose, draw_at, pack, place, uniforms
from anyorder.samplers.gibbs import candidates
from anyorder.types import Conditionals, Info, Sampler

# (tokens [B, N], free [B, N]) -> [B, N, N] influence in [0, 1], and the rows of the model it took.
Influence = Callable[[Tensor, Tensor], tuple[Tensor, int]]


class AdaptiveState(NamedTuple):
    """A chain per row, and what is known of the dependence between its positions."""

    tokens: Tensor  # [B, N]
    free: Tensor  # [B, N] bool
    influence: Tensor  # [B, N, N] summed over the measurements that saw both positions
    seen: Tensor  # [B, N, N] how many did
    rounds: Tensor  # [B] measurements made

    @property
    def done(self) -> Tensor:
        """[B] rows with nothing to resample."""
        return ~self.free.any(1)

    @property
    def endless(self) -> bool:
        """A chain stops when its reader does."""
        return True


def adaptive(
    conditionals: Conditionals,
    *,
    block: int = 2,
    blocks: int = 4,
    threshold: float = 0.05,
    rounds: int = 4,
    influence: Influence | None = None,
    warper: Warper | None = None,
) -> Sampler:
    """Resample strongly dependent positions together in sequence, weakly dependent ones side by side.

    Dependence is measured in the first ``rounds`` steps of a chain, see :func:`mutual_influence`, and then kept. A
    step draws a uniform seed, grows a block S_1 around it by strongest dependence, then further seeds whose blocks
    depend on all before by at most ``threshold``; the r-th members of all blocks are drawn in one pass, given what
    stands outside and the members before. That costs ``block`` passes for up to block · blocks tokens.

    Once the measurements are over the choice of blocks does not look at the tokens any more, so with one block (or
    independent ones) the joint of compatible conditionals is stationary; more blocks err by less than the
    dependence let through. Rows that hold masks first fill them, ``block`` a step in sequence.

    Args:
        conditionals: The model.
        block: Positions a block, drawn one after the other.
        blocks: At most so many side by side.
        threshold: Largest dependence (total variation, 0..1) between positions of two blocks.
        rounds: Measurements, one in each of the first steps; each costs about n/2 rows a text.
        influence: Another source of the dependence, e.g. attention; asked once, in place of the measurements.
        warper: Temperature, top-k and the like.

    Returns:
        A sampler without an end.
    """
    if block < 1 or blocks < 1 or rounds < 1:
        raise AnyorderError("block, blocks and rounds of the adaptive sampler must be at least 1")
    if not 0 <= threshold <= 1:
        raise AnyorderError(f"the threshold is a total variation: choose it between 0 and 1, not {threshold}")
    needed = rounds if influence is None else 1

    def init(tokens: Tensor, free: Tensor) -> AdaptiveState:
        zeros = torch.zeros((*tokens.shape, tokens.shape[1]), dtype=torch.float32, device=tokens.device)
        return AdaptiveState(tokens.clone(), free.clone(), zeros, zeros.clone(), torch.zeros_like(tokens[:, 0]))

    def measure(state: AdaptiveState, filling: Tensor, keys: Tensor) -> tuple[AdaptiveState, int]:
        """Add one measurement in the rows that still need one."""
        wanting = ~filling & ~state.done & (state.rounds < needed)
        if not bool(wanting.any()):
            return state, 0
        if influence is None:
            total, seen, passes = mutual_influence(
                conditionals, state.tokens, state.free & (keys < 0.5) & wanting[:, None]
            )
        else:
            total, passes = influence(state.tokens, state.free & wanting[:, None])
            pairs = state.free[:, :, None] & state.free[:, None, :] & wanting[:, None, None]
            total, seen = total * pairs, pairs.float()
        return state._replace(
            influence=state.influence + total, seen=state.seen + seen, rounds=state.rounds + wanting
        ), passes

    def step(generator: torch.Generator, state: AdaptiveState) -> tuple[AdaptiveState, Info]:
        keys, u, hidden = (uniforms(generator, state.tokens) for _ in range(3))
        filling = (state.free & (state.tokens == conditionals.mask_id)).any(1)
        state, passes = measure(state, filling, hidden)
        tokens, allowed = state.tokens, candidates(state.tokens, state.free, conditionals.mask_id)
        many = torch.where(filling, 1, blocks)
        members = grow(dependence(state), allowed, keys, block, blocks, many, threshold)  # [B, blocks, block]
        # Filling follows the keys instead: a uniformly random order, as Algorithm 1 has it.
        filler = choose(keys, allowed, block)
        filler = torch.nn.functional.pad(filler, (0, block - filler.shape[1]), value=-1)
        members[:, 0] = torch.where(filling[:, None], filler, members[:, 0])

        tokens = place(tokens, members.flatten(1), conditionals.mask_id)
        draws: list[Draw] = []
        for column in members.unbind(2):  # the r-th member of every block, [B, blocks]
            draw, sent = draw_at(conditionals, tokens, column, u, warper)
            tokens = place(tokens, column, draw.tokens)
            draws.append(draw)
            passes += sent
        positions = torch.cat(members.unbind(2), 1)  # in the order they were drawn
        merged = Draw(*(torch.cat(parts, 1) for parts in zip(*draws, strict=True)))
        positions, merged = _left(positions, merged)
        return state._replace(tokens=tokens), Info(positions, *merged, passes)

    return Sampler(init, step)


def mutual_influence(conditionals: Conditionals, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, int]:
    """How much seeing x_j changes the conditional at i: TV(q(x_i | x_-M), q(x_i | x_-M, x_j)) for i, j in M.

    M = ``hidden`` [B, N] is masked; a row without, and one with each x_j put back, tell all pairs of M: |M| + 1 rows.

    Returns:
        The influence [B, N, N] (entry [j, i]), which pairs were seen [B, N, N], and the rows sent.
    """
    length = tokens.shape[1]
    masked = tokens.masked_fill(hidden, conditionals.mask_id)
    asked = pack(hidden)  # [B, K]
    (base,), passes = ask(conditionals, masked, asked, lambda log_q, rows: (log_q,))
    row, j = hidden.nonzero(as_tuple=True)  # [R]
    shown = masked[row].scatter(1, j[:, None], tokens[row, j][:, None])
    others = torch.where(asked[row] == j[:, None], -1, asked[row])  # [R, K]

    def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        return ((log_q.exp() - base[row[rows]].exp()).abs().sum(-1).float() / 2,)

    (tv,), sent = ask(conditionals, shown, others, read)  # [R, K]
    total = torch.zeros((*tokens.shape, length + 1), device=tokens.device)
    index = torch.where(others >= 0, others, length)
    total[row[:, None], j[:, None], index] = tv
    seen = hidden[:, :, None] & hidden[:, None, :] & ~torch.eye(length, dtype=torch.bool, device=tokens.device)
    return total[..., :length], seen.float(), passes + sent


def dependence(state: AdaptiveState) -> Tensor:
    """[B, N, N] the mean influence of either position on the other, the larger of the two; NaN where never seen."""
    mean = state.influence / state.seen  # 0 / 0 is the NaN we want
    return torch.fmax(mean, mean.transpose(1, 2))


def grow(tie: Tensor, allowed: Tensor, keys: Tensor, block: int, blocks: int, many: Tensor, threshold: float) -> Tensor:
    """Blocks of positions, [B, blocks, block], ending in -1 where a row has no more.

    Seeds come in the order of ``keys``. A block grows by the position most tied to any of its members (as in Prim's
    algorithm). A position joins a later block only if its tie to all earlier ones is at most ``threshold``; a pair
    that was never measured counts as tied there, and as not tied when growing.
    """
    strong = tie.nan_to_num(0.0)
    unsafe = tie.nan_to_num(1.0) > threshold  # [B, N, N]
    left = allowed.clone()
    out = []
    for number in range(blocks):
        left = left & (number < many)[:, None]
        rank, nearest = keys, torch.zeros_like(keys)
        members = []
        for _ in range(block):
            position = choose(rank, left, 1)  # [B, 1]
            members.append(position)
            left = place(left, position, 0)
            index = position.clamp(min=0)[..., None].expand(-1, -1, strong.shape[2])
            nearest = torch.maximum(nearest, strong.gather(1, index).squeeze(1).double())
            rank = 1e-9 * keys - nearest  # equal ties in random order
        out.append(torch.cat(members, 1))
        index = out[-1].clamp(min=0)[..., None].expand(-1, -1, unsafe.shape[2])
        touched = (unsafe.gather(1, index) & (out[-1] >= 0)[..., None]).any(1)
        left = left & ~touched
    return torch.stack(out, 1)


def _left(positions: Tensor, draw: Draw) -> tuple[Tensor, Draw]:
    """Slots that hold a position first, those at -1 last, as Info promises."""
    order = torch.argsort((positions < 0).long(), dim=1, stable=True)
    return positions.gather(1, order), Draw(*(part.gather(1, order) for part in draw))
