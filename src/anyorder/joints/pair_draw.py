"""Dependent pairs drawn from their Arnold–Gokhale joint, for a parallel step that commits several positions at once."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.joints.fixed_point import fixed_point
from anyorder.samplers.draw import inverse_cdf
from anyorder.samplers.parallel import PairDraw
from anyorder.types import Conditionals

_STEPS, _TOLERANCE = 60, 1e-6  # of eq 5; a draw does not need the sixth digit


def pair_draw(conditionals: Conditionals, *, support: int = 16) -> PairDraw:
    """Draw adjacent positions of a parallel step jointly, two by two; the rest from their own conditionals.

    A step that commits S draws from the product of conditionals (eq 1), as if S were independent. Here every two
    adjacent positions that it commits are drawn from the Arnold–Gokhale joint (eq 5) of their ``support`` most probable
    tokens. What the support leaves out is drawn as before: with the probability that both tokens are
    in it the pair comes from the joint, else from the product, so no token becomes impossible.

    Args:
        conditionals: the model.
        support: tokens of each position; 2 · support further rows of the model for each pair.

    Returns:
        What ``samplers.parallel(..., pair_draw=...)`` takes.
    """

    def draw(tokens: Tensor, positions: Tensor, log_q: Tensor, u: Tensor) -> tuple[Tensor, int]:
        k = min(support, conditionals.vocab_size)
        values = inverse_cdf(log_q, u)  # [b, K] the product, where no pair says otherwise
        row, i, j = _couples(positions)  # [P] each: the row, and the slots of the two positions
        if len(row) == 0:
            return values, 0
        best = [log_q[row, slot].topk(k) for slot in (i, j)]
        ids_a, ids_b = (x.indices for x in best)  # [P, k]
        where = [positions[row, slot] for slot in (i, j)]
        ask_a = _table(conditionals, tokens[row], vary=where[1], ask=where[0], given=ids_b, keep=ids_a)  # [P, b, a]
        ask_b = _table(conditionals, tokens[row], vary=where[0], ask=where[1], given=ids_a, keep=ids_b)  # [P, a, b]
        # Where fewer tokens are allowed than the support holds, the rest of it is impossible whatever it would lead to.
        allowed = [x.values > -torch.inf for x in best]
        c = (ask_a.mT + ask_b) * (allowed[0][:, :, None] & allowed[1][:, None])  # [P, a, b]
        possible = c.sum((1, 2)) > 0  # else their tokens never go together, and there is no joint of them
        joint = _arnold_gokhale(torch.where(possible[:, None, None], c, 1.0))
        # u decides inside or outside, then the tokens: conditioned on the outcome it is uniform again.
        mass = [x.values.double().exp().sum(1) for x in best]
        u_a, u_b = u[row, i].double(), u[row, j].double()
        inside = possible & (u_a < mass[0]) & (u_b < mass[1])
        first = inverse_cdf(joint.sum(2).log(), u_a / mass[0])
        second = inverse_cdf(joint[torch.arange(len(row)), first].log(), u_b / mass[1])
        for slot, ids, chosen, mine, m in zip((i, j), (ids_a, ids_b), (first, second), (u_a, u_b), mass, strict=True):
            # Outside, the product given that the pair is not wholly inside: each token from the part its u fell into.
            outside = _outside(log_q[row, slot], ids, mine, m)
            values[row, slot] = torch.where(inside, ids.gather(1, chosen[:, None]).squeeze(1), outside)
        return values, 2 * k * len(row)

    return draw


def _couples(positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Match adjacent positions, greedily from the left, each in one pair at most."""
    far = torch.iinfo(positions.dtype).max // 2  # -1, no position, sorts last and is near to nothing
    places, order = torch.where(positions < 0, far, positions).sort(1)
    near = (places.diff(dim=1) == 1) & (places[:, 1:] < far)  # [b, K-1] each place and the next
    index = torch.arange(near.shape[1], device=positions.device).expand_as(near)
    last_gap = torch.where(near, -1, index).cummax(1).values
    first = near & ((index - last_gap) % 2 == 1)  # every other one of a run of neighbours begins a pair
    row, at = first.nonzero(as_tuple=True)
    return row, order[row, at], order[row, at + 1]


def _table(
    conditionals: Conditionals, tokens: Tensor, *, vary: Tensor, ask: Tensor, given: Tensor, keep: Tensor
) -> Tensor:
    """q(keep | vary = given) for each pair, [P, k, k], normalised over ``keep``; 0 where none of these is possible."""
    pairs, k = given.shape
    rows = tokens.repeat_interleave(k, 0)  # [P·k, N]
    rows.scatter_(1, vary.repeat_interleave(k)[:, None], given.reshape(-1, 1))
    rows.scatter_(1, ask.repeat_interleave(k)[:, None], conditionals.mask_id)
    log_q = conditionals(rows, ask.repeat_interleave(k)[:, None])[:, 0]  # [P·k, V]
    kept = log_q.gather(1, keep.repeat_interleave(k, 0)).double()
    return torch.softmax(kept, -1).nan_to_num(0.0).view(pairs, k, k)


def _arnold_gokhale(c: Tensor) -> Tensor:
    """Eq 5 for a batch of C [P, k, k]: the joints, [P, k, k]."""
    k = c.shape[1]
    tiny = torch.finfo(c.dtype).tiny
    p = c

    def step(x: Tensor) -> Tensor:
        nonlocal p
        a, b = x[:, :k, None].exp(), x[:, None, k:].exp()
        p = c * (a * b / (a + b))
        p = p / p.sum((1, 2), keepdim=True)
        return torch.cat([p.sum(2), p.sum(1)], 1).clamp(min=tiny)  # an impossible token keeps a finite logarithm

    fixed_point(step, (k, k), tolerance=_TOLERANCE, max_iterations=_STEPS, accelerate=False, batch=(len(c),))
    return p


def _outside(log_q: Tensor, ids: Tensor, u: Tensor, mass: Tensor) -> Tensor:
    """One position drawn alone: among ``ids`` if u falls into their ``mass``, else among all other tokens. [P]"""
    among = ids.gather(1, inverse_cdf(log_q.gather(1, ids), u / mass)[:, None]).squeeze(1)
    rest = log_q.scatter(1, ids, -torch.inf)
    others = inverse_cdf(rest, ((u - mass) / (1 - mass)).clamp(0.0, 1.0))
    # Rounding may leave a little of u beyond the mass of ids that are all there is.
    return torch.where((u < mass) | (rest.amax(1) == -torch.inf), among, others)
