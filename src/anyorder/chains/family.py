"""A parametric model around a world: p_θ(x) ∝ p(x) exp(θ·T(x)), the truth at θ = 0, with exact scores.

T holds a field for every position and a coupling for every interacting pair. For an Ising world that is the Ising
model itself, its couplings and fields as θ (written from the truth as origin).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyorder.chains.transition import Array, joint
from anyorder.chains.worlds import World

Mask = tuple[int, ...]


@dataclass(frozen=True)
class Family:
    """An exponential family on [V]*N at its true parameter."""

    p: Array  # [V]*N the truth
    features: Array  # [V]*N + [d], T(x)
    names: tuple[str, ...]  # [d]

    @property
    def length(self) -> int:
        """N."""
        return self.p.ndim

    @property
    def size(self) -> int:
        """d, the number of parameters."""
        return int(self.features.shape[-1])

    def expected(self, mask: Mask) -> Array:
        """E[T | x_-S] with the axes of S kept at length one; at S = ∅ it is T itself.

        The score of p_θ is T - E[T], so the gradient of log p_θ(x_S | x_-S) is T - E[T | x_-S].
        """
        weighted = (self.p[..., None] * self.features).sum(axis=mask, keepdims=True)
        total = self.p.sum(axis=mask, keepdims=True)[..., None]
        return np.divide(weighted, total, out=np.zeros_like(weighted), where=total > 0)

    def covariance(self, mask: Mask) -> Array:
        """[d, d] E Cov(T | x_-S)."""
        return second_moment(self.p, self.features - self.expected(mask))


def make_family(world: World) -> Family:
    """Fields and couplings of ``world``.

    A binary position has the feature s = 2x - 1; one with V words has V - 1 indicators (the last word is the
    reference). A coupling is the product of two positions' features, over the world's interacting pairs.
    """
    p = joint(world.table)
    v, n = world.table.vocab_size, world.table.length
    own = np.array([[-1.0], [1.0]]) if v == 2 else np.eye(v)[:, :-1]  # [V, V-1]

    def along(t: int) -> Array:
        shape = [1] * n
        shape[t] = v
        return np.broadcast_to(own.reshape(*shape, -1), (*p.shape, own.shape[1]))

    parts, names = [], []
    for t in range(n):
        parts.append(along(t))
        names += [f"field {t}" + (f" word {a}" if v > 2 else "") for a in range(own.shape[1])]
    for i, j in world.edges:
        pair = along(i)[..., :, None] * along(j)[..., None, :]
        parts.append(pair.reshape(*p.shape, -1))
        words = [(a, b) for a in range(own.shape[1]) for b in range(own.shape[1])]
        names += [f"coupling {i}-{j}" + (f" words {a},{b}" if v > 2 else "") for a, b in words]
    return Family(p, np.concatenate(parts, -1), tuple(names))


def second_moment(p: Array, x: Array) -> Array:
    """[d, d] Σ p x xᵀ of x [..., d]."""
    flat = x.reshape(-1, x.shape[-1])
    return np.asarray((p.reshape(-1, 1) * flat).T @ flat)
