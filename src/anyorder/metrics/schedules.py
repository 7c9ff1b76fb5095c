"""Schedules of parallel decoding: how many tokens each of K steps reveals, and what that costs in nats.

L(t) is the mean loss of a hidden token while t of a text's tokens, at random places, are visible. Drawn one by one the
n blanks of a text cost Σ_t L(t). A step that reveals the (i+1)-th to the j-th token at once draws each of them given
only the first i and costs (j - i) L(i), so that it loses

    price(i, j) = Σ_{t=i..j-1} (L(i) - L(t))    nats

in expectation (Li et al. 2024's product loss; Hoogeboom et al. 2022, Autoregressive Diffusion Models, section 3). This
is the KL divergence from drawing one by one to drawing by blocks, of order and text together, and a bound on that of
the texts alone (``tests/metrics/test_schedules.py`` has both from exact tables). A schedule's price is the sum over its
steps, and no step changes what another costs: dynamic programming finds the cheapest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np


def linear(blanks: int, steps: int) -> tuple[int, ...]:
    """Block sizes that are as even as can be: n·t/K revealed by step t."""
    return _blocks(blanks, steps, lambda t, limit: blanks * t // limit)


def cosine(blanks: int, steps: int) -> tuple[int, ...]:
    """Few first: n·(1 - cos(π t / 2K)) revealed by step t."""
    return _blocks(blanks, steps, lambda t, limit: math.floor(blanks * (1 - math.cos(0.5 * math.pi * t / limit))))


FORMULAS: dict[str, Callable[[int, int], tuple[int, ...]]] = {"linear": linear, "cosine": cosine}
SCHEDULES = ("optimal", *FORMULAS)


def _blocks(blanks: int, steps: int, by: Callable[[int, int], int]) -> tuple[int, ...]:
    """Block sizes if ``by(t, K)`` tokens are to be revealed by step t: at least one per step, and all at last."""
    limit = min(steps, blanks)
    sizes: list[int] = []
    done = 0
    for t in range(1, limit + 1):
        target = blanks if t == limit else by(t, limit)
        sizes.append(min(max(target - done, 1), blanks - done))
        done += sizes[-1]
    return tuple(sizes)


def optimal(losses: Sequence[float] | np.ndarray, steps: int) -> tuple[int, ...]:
    """The block sizes of least price among all that take ``steps`` steps (no more than there are blanks).

    Args:
        losses: [n] L(t), the loss of a hidden token after t of the n blanks were revealed.
        steps: K.
    """
    loss = np.asarray(losses, dtype=np.float64)
    n = len(loss)
    limit = min(steps, n)
    # cost[k, j]: the least total loss of the first j tokens in k steps, the last of which began at begin[k, j].
    cost = np.full((limit + 1, n + 1), np.inf)
    cost[0, 0] = 0.0
    begin = np.zeros((limit + 1, n + 1), dtype=np.int64)
    for j in range(1, n + 1):
        through = cost[:-1, :j] + (j - np.arange(j)) * loss[:j]  # [K, j]
        begin[1:, j] = through.argmin(1)
        cost[1:, j] = through.min(1)
    sizes: list[int] = []
    end = n
    for k in range(limit, 0, -1):
        start = int(begin[k, end])
        sizes.append(end - start)
        end = start
    return tuple(reversed(sizes))


def price(losses: Sequence[float] | np.ndarray, blocks: Sequence[int]) -> float:
    """Nats that revealing ``blocks`` at once loses against one token per step, in expectation.

    Args:
        losses: [n] as of :func:`optimal`.
        blocks: Sizes that sum to n.
    """
    loss = np.asarray(losses, dtype=np.float64)
    starts = np.cumsum([0, *blocks])
    return float(np.dot(blocks, loss[starts[:-1]]) - loss.sum())
