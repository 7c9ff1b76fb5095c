"""Anderson acceleration of a fixed-point iteration x ← g(x): the same fixed point in a fraction of the passes."""

from __future__ import annotations

import torch
from torch import Tensor

_MEMORY = 6  # evaluations that are kept
_STRIDE = 2.0  # in x, at most, beyond the plain step: far from the minimum the history promises too much
_PARALLEL = 1e-10  # a step whose new direction is this small a part of it says nothing more than those after it


class Anderson:
    """Extrapolate from the last evaluations (type II, weighted least squares on the residuals g(x) - x).

    Arnold–Gokhale converges linearly, at a rate close to one where the conditionals hardly mix. Its objective is convex
    in log μ, so a fixed point is *the* minimum and how one gets there does not matter: a smaller residual is progress,
    and when it grows the history is dropped and a plain step taken.
    """

    def __init__(self) -> None:
        self._x: list[Tensor] = []
        self._f: list[Tensor] = []
        self._best = float("inf")

    def propose(self, x: Tensor, g: Tensor, weight: Tensor) -> Tensor:
        """The next point, from x [D], g(x) [D] and the importance of each coordinate, weight [D] ≥ 0."""
        f = g - x
        root = weight.sqrt()
        norm = float((f * root).norm())
        if norm > 2 * self._best:
            self._x, self._f, self._best = [], [], norm
        self._best = min(self._best, norm)
        self._x, self._f = [*self._x, x][-_MEMORY:], [*self._f, f][-_MEMORY:]
        m = len(self._f) - 1
        if m == 0:
            return g
        # Newest first, since older ones are the first to be left out.
        df = [self._f[i + 1] - self._f[i] for i in reversed(range(m))]
        dx = [self._x[i + 1] - self._x[i] for i in reversed(range(m))]
        gamma = _least_squares([d * root for d in df], f * root)
        stride = sum((c * (x + y) for c, x, y in zip(gamma, dx, df, strict=False)), torch.zeros_like(g))
        longest = float(stride.abs().max())
        return g - stride * min(1.0, _STRIDE / longest) if longest > 0 else g


def _least_squares(columns: list[Tensor], target: Tensor) -> list[float]:
    """Coefficients of the first independent ``columns`` that come nearest to ``target`` (modified Gram–Schmidt).

    Not LAPACK's: its answer changes in the last digits from call to call, and a resumed run must end like an
    uninterrupted one.
    """
    basis: list[Tensor] = []
    r: list[list[float]] = []  # r[j][i] = <basis i, column j>
    for column in columns:
        rest, row = column, []
        for q in basis:
            row.append(float((q * rest).sum()))
            rest = rest - row[-1] * q
        norm = float(rest.norm())
        if norm <= _PARALLEL * float(column.norm()):
            break
        r.append([*row, norm])
        basis.append(rest / norm)
    right = [float((q * target).sum()) for q in basis]
    gamma = [0.0] * len(basis)
    for i in reversed(range(len(basis))):
        gamma[i] = (right[i] - sum(r[j][i] * gamma[j] for j in range(i + 1, len(basis)))) / r[i][i]
    return gamma
