"""Anderson acceleration of a fixed-point iteration x ← g(x): the same fixed point in a fraction of the passes."""

from __future__ import annotations

import torch
from torch import Tensor

_RIDGE = 1e-10  # relative; keeps the least squares solvable when the steps become parallel


class Anderson:
    """Extrapolate from the last ``memory`` evaluations (type II, weighted least squares on the residuals g(x) - x).

    Arnold–Gokhale converges linearly, at a rate close to one where the conditionals hardly mix. Its objective is convex
    in log μ, so a fixed point is *the* minimum and how one gets there does not matter: a smaller residual is progress,
    and when it grows the history is dropped and a plain step taken.
    """

    def __init__(self, memory: int = 6) -> None:
        self.memory = memory
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
        self._x, self._f = [*self._x, x][-self.memory :], [*self._f, f][-self.memory :]
        m = len(self._f) - 1
        if m == 0:
            return g
        df = torch.stack([self._f[i + 1] - self._f[i] for i in range(m)], 1)  # [D, m]
        dx = torch.stack([self._x[i + 1] - self._x[i] for i in range(m)], 1)
        left = df * root[:, None]
        ridge = _RIDGE * left.norm() * torch.eye(m, dtype=x.dtype, device=x.device)
        right = torch.cat([f * root, torch.zeros(m, dtype=x.dtype, device=x.device)])
        gamma = torch.linalg.lstsq(torch.cat([left, ridge]), right[:, None]).solution[:, 0]
        proposal = g - (dx + df) @ gamma
        return proposal if bool(torch.isfinite(proposal).all()) else g
