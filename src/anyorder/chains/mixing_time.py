"""The mixing time t_mix = min {t : max_x TV(P^t(x, ·), π) ≤ ε}, ε = 1/4, to the step.

Three ways to the same number. Squaring P brackets t between powers of two and then finds its binary digits; it is
right for small chains. Large fast ones are stepped. And a slow chain soon has only a few slow modes left,
P^s - 1πᵀ = Q B with thin Q and B, whose further powers Q (BQ)^(m-1) B cost next to nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anyorder.chains.transition import Array, Matrix, dense

EPSILON = 0.25  # the total-variation distance that counts as mixed
# After j squarings a power is exact to about 2^j float64 roundings: for slower chains only a bound is given.
_MAX_POWER = 30
# Below this many states nothing is cheaper than squaring.
_SMALL = 600
# Sparse powers fill up; beyond this share of nonzeros a dense product is faster.
_SPARSE_SHARE = 0.02
# Steps to take at most before squaring after all, and how many slow modes are a few.
_MAX_STEPS = 1024
_RANK = 24


def mixing_time(matrix: Matrix, pi: Array, gap: float, starts: NDArray[np.int64] | None = None) -> tuple[float, bool]:
    """(t_mix, False); for a chain too slow to follow, (a lower bound from the gap, True).

    Args:
        matrix: transition matrix of an irreducible, aperiodic chain.
        pi: its stationary law.
        gap: its absolute spectral gap.
        starts: the states among which the worst start is to be found; all by default.
    """
    if gap <= 0 or math.log2(1 / gap) > _MAX_POWER:
        # t_mix ≥ (1/gap - 1) log(1/2ε) (Levin & Peres, theorem 12.5).
        return (1 / gap - 1) * math.log(1 / (2 * EPSILON)) if gap > 0 else math.inf, True
    starts = np.arange(len(pi)) if starts is None else starts
    if 1.0 - pi[starts].min() <= EPSILON:  # the distance of a point to π
        return 0.0, False
    if len(pi) > _SMALL:
        step = sparse.csr_matrix(matrix.T) if sparse.issparse(matrix) else matrix.T  # columns are laws
        modes = _slow_modes(matrix, step, pi) if sparse.issparse(matrix) or gap < 0.01 else None
        if modes is not None and _late(modes[0][starts], modes[1][0]).any():
            return _by_modes(*modes, starts), False
        # Stepping costs starts x steps, squaring states x log steps; 1/gap is about the number of steps.
        if sparse.issparse(matrix) or len(starts) / gap < 4 * len(pi):
            time = _by_steps(matrix, step, pi, starts)
            if time is not None:
                return time, False
    return _by_squaring(matrix, pi, starts), False


def _by_squaring(matrix: Matrix, pi: Array, starts: NDArray[np.int64]) -> float:
    """A start's distance never grows, so starts that are there already drop out."""
    powers = [matrix]  # P^(2^j)
    while (_distance(powers[-1][starts], pi) > EPSILON).any():
        powers.append(_squared(powers[-1]))
    if len(powers) == 1:
        return 1.0
    rows, time = powers[-2][starts], 2 ** (len(powers) - 2)
    rows = dense(rows[_distance(rows, pi) > EPSILON])
    for j in range(len(powers) - 3, -1, -1):
        further = rows @ powers[j]
        late = _distance(further, pi) > EPSILON
        if late.any():
            rows, time = further[late], time + 2**j
    return float(time + 1)


def _by_steps(matrix: Matrix, step: Matrix, pi: Array, starts: NDArray[np.int64]) -> float | None:
    """Follow all starts step by step; None if it takes too many."""
    laws = dense(matrix[starts]).T
    for time in range(1, _MAX_STEPS + 1):
        late = _distance(laws.T, pi) > EPSILON
        if not late.any():
            return float(time)
        laws = step @ (laws if late.all() else laws[:, late])
    return None


def _slow_modes(matrix: Matrix, step: Matrix, pi: Array) -> tuple[Array, list[Array]] | None:
    """(Q [M, r], [B, BP, …, BP^s]) with P^s - 1πᵀ = Q B to rounding, for the first s = 2^j with few modes alive."""
    probe = np.random.default_rng(0).standard_normal((len(pi), _RANK))
    time = 0
    for target in (2**j for j in range(int(math.log2(_MAX_STEPS)) + 1)):
        for _ in range(target - time):
            probe = matrix @ probe
        time = target
        image = probe - pi @ probe  # the range of P^s - 1πᵀ, since πP^s = π
        q, singular, _ = np.linalg.svd(image, full_matrices=False)
        alive = singular > 1e-12 * math.sqrt(len(pi))
        if alive.sum() <= _RANK - 4:
            break
    else:
        return None
    q = q[:, alive]
    b = q
    for _ in range(time):
        b = step @ b
    later = [b - np.outer(pi, q.sum(0))]
    for _ in range(time):
        later.append(step @ later[-1])
    return q, [b.T for b in later]


def _by_modes(q: Array, later: list[Array], starts: NDArray[np.int64]) -> float:
    """P^(ms + j) - 1πᵀ = Q (BQ)^(m-1) BP^j: find m by its binary digits, then j by bisection."""
    s, b = len(later) - 1, later[0]
    left, time = q[starts], s  # P^time - 1πᵀ = left @ b
    left = left[_late(left, b)]

    core = [b @ q]  # (BQ)^(2^i)
    while _late(left @ core[-1], b).any():
        core.append(core[-1] @ core[-1])
    for i in range(len(core) - 1, -1, -1):
        further = left @ core[i]
        still = _late(further, b)
        if still.any():
            left, time = further[still], time + s * 2**i
    low, high = 0, s  # late at low, there at high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _late(left, later[middle]).any() else (low, middle)
    return float(time + high)


def _late(left: Array, right: Array) -> NDArray[np.bool_]:
    """Which rows of left @ right, each a law less π, are further than ε from zero."""
    parts = [left[i : i + 512] for i in range(0, len(left), 512)]
    return np.concatenate([0.5 * np.abs(part @ right).sum(-1) for part in parts]) > EPSILON


def _squared(power: Matrix) -> Matrix:
    """P² with its rows summing to one to the last digit, or rounding would drift over many squarings."""
    if sparse.issparse(power) and power.nnz > _SPARSE_SHARE * power.shape[0] ** 2:
        power = power.toarray()
    squared = power @ power
    total = np.asarray(squared.sum(1)).reshape(-1, 1)
    return sparse.csr_matrix(squared.multiply(1 / total)) if sparse.issparse(squared) else squared / total


def _distance(rows: Matrix, pi: Array) -> Array:
    """Total variation of each row to π, a few rows at a time."""
    parts = [rows[i : i + 512] for i in range(0, rows.shape[0], 512)]
    return np.concatenate([0.5 * np.abs(dense(part) - pi).sum(-1) for part in parts])
