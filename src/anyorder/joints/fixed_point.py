"""Eq 5 as a fixed point of marginals, for pairs, for more positions and for batches of small tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.joints.anderson import Anderson


class FixedPoint(NamedTuple):
    """Where the iteration ended."""

    log_mu: Tensor  # [..., D] log marginals that went into the last step
    log_marginals: Tensor  # [..., D] those that came out of it
    iterations: int
    change: float  # total variation between the two, the largest of all parts
    converged: bool  # False where the iteration stopped at its limit before the marginals came to rest


def fixed_point(
    step: Callable[[Tensor], Tensor],
    sizes: Sequence[int],
    *,
    tolerance: float,
    max_iterations: int,
    accelerate: bool = True,
    floor: float = torch.finfo(torch.float64).tiny,
    batch: tuple[int, ...] = (),
    device: torch.device | None = None,
) -> FixedPoint:
    """Iterate ``step`` on concatenated marginals, from uniform ones, until they no longer move.

    Args:
        step: log marginals [..., D] -> the marginals [..., D] after one step of eq 5, each part summing to 1.
        sizes: Of the parts that D = Σ sizes is made of: the marginals, each normalised by itself.
        tolerance: Total variation of every marginal between two steps at which to stop.
        max_iterations: Steps at most.
        accelerate: Extrapolate between steps (:class:`anyorder.joints.anderson.Anderson`); not for batches.
        floor: The least probability that goes into a step.
        batch: Leading axes, for independent problems that are iterated together.
        device: Where the marginals live.
    """
    x = torch.cat([torch.full((*batch, n), -math.log(n), dtype=torch.float64, device=device) for n in sizes], -1)
    history = Anderson() if accelerate else None
    for iteration in range(1, max(1, max_iterations) + 1):
        marginals = step(x)
        moved = (marginals - x.exp()).abs()
        change = max(float(part.sum(-1).max()) for part in moved.split(list(sizes), -1)) / 2
        log_marginals = marginals.log()
        # The gradient of eq 4 in log μ counts every token alike. Near a corner, where one pair has nearly all the mass,
        # the marginals stand still long before it vanishes.
        gradient = float((log_marginals - x).abs().mean(-1).max())
        converged = change <= tolerance and gradient <= tolerance**0.5
        if converged or iteration >= max_iterations:
            break
        x = log_marginals if history is None else history.propose(x, log_marginals, marginals + 1 / len(x))
        x = torch.cat([torch.log_softmax(part, -1) for part in x.split(list(sizes), -1)], -1).clamp_(math.log(floor))
    return FixedPoint(x, log_marginals, iteration, change, converged)
