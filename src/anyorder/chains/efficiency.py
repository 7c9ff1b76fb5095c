"""How much a masked loss learns from a sample: exact asymptotic covariances (Li et al. 2024, theorems 1 and 2).

The estimator minimises -log p_θ(x_S | x_-S), summed over S, with one mask S drawn for every sample. Its asymptotic
covariance is I⁻¹ with I = E_S E Cov(∇ log p_θ(x) | x_-S). Averaging the loss over all masks instead gives the sandwich
H⁻¹ V H⁻¹. Masked language models are in fact trained on single tokens, -Σ_{t∈S} log p_θ(x_t | x_-S), weighted 1/K by
u-PMLM (eq 6 of Liao et al.): the loss ``token``, always a sandwich.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import linalg

from anyorder.chains.family import Family, Mask, second_moment
from anyorder.chains.transition import Array
from anyorder.errors import AnyorderError
from anyorder.masking.priors import Prior, count_probabilities


@dataclass(frozen=True)
class Efficiency:
    """The asymptotic covariance (times n) of a masked estimator, beside the maximum-likelihood bound."""

    covariance: Array  # [d, d] one mask per sample
    averaged: Array  # [d, d] the loss averaged over all masks
    bound: Array  # [d, d] the inverse Fisher information (Cramér–Rao)

    @property
    def ratio(self) -> float:
        """Total variance over the bound's: how many times more samples it needs, on average over parameters."""
        return float(np.trace(self.covariance) / np.trace(self.bound))

    @property
    def averaged_ratio(self) -> float:
        """The same with the loss averaged over all masks."""
        return float(np.trace(self.averaged) / np.trace(self.bound))

    @property
    def worst(self) -> float:
        """The largest ratio over all directions of θ; theorem 1 bounds it by the Poincaré constant."""
        return float(linalg.eigh(self.covariance, self.bound, eigvals_only=True)[-1])

    def to_dict(self) -> dict[str, Any]:
        """The ratios, ready for JSON."""
        return {"ratio": self.ratio, "averaged_ratio": self.averaged_ratio, "worst_direction": self.worst}


def count_law(prior: Prior | int, length: int) -> Array:
    """[N+1] the law of the number K of masked positions: a fixed size, or a prior p(r) of ``masking``."""
    if isinstance(prior, int):
        if not 1 <= prior <= length:
            raise AnyorderError(f"a mask of {prior} in a world of {length} positions: use sizes from 1 to {length}")
        return np.eye(length + 1)[prior]
    return count_probabilities(prior, length)


def weighted_masks(counts: Array) -> Iterator[tuple[Mask, float]]:
    """Every mask of positive probability, and that probability."""
    n = len(counts) - 1
    for k, weight in enumerate(counts):
        if weight > 0:
            for mask in combinations(range(n), k):
                yield mask, float(weight) / math.comb(n, k)


def terms(mask: Mask, loss: str) -> list[tuple[Mask, float]]:
    """A loss at one mask as Σ_A c_A log Z_A(x_-A), where Z_A(x_-A) = Σ_{x_A} p_θ(x), unnormalised.

    -log p(x_S | x_-S) = log Z_S - log Z_∅, and -log p(x_t | x_-S) = log Z_S - log Z_{S∖t}. Everything an estimator
    needs follows: the gradient is Σ_A c_A E[T | x_-A], the Hessian Σ_A c_A Cov(T | x_-A).
    """
    if not mask:
        return []
    if loss == "block":
        return [(mask, 1.0), ((), -1.0)]
    return [(mask, 1.0), *((tuple(i for i in mask if i != t), -1.0 / len(mask)) for t in mask)]


def information(family: Family, counts: Array) -> Array:
    """[d, d] I = E_S E Cov(T | x_-S), the mask drawn with its size from ``counts``."""
    return _block_sums(family, counts)[0]


def _block_sums(family: Family, counts: Array) -> tuple[Array, Array]:
    """E_S E Cov(T | x_-S) [d, d] and E_S E[T | x_-S] [V]*N + [d], over all masks in about V (V + 1)^N steps.

    Masks form a tree, each made from one without its last position t. By the law of total covariance it adds

        E Cov(T | x_-S) = E Cov(T | x_-S∖t) + E[m m'],   m = E[T | x_-S∖t] - E[T | x_-S],

    a sum over the states of x_-S∖t alone, and of positive terms, so that no digits are lost where they are small.
    """
    n, d = family.length, family.size
    largest = int(np.flatnonzero(counts)[-1])
    total = np.zeros((d, d))

    def visit(mask: Mask, mean: Array, p: Array) -> tuple[float, Array]:
        """Below ``mask``: the probability of those masks, and the sum of their means by it."""
        weight = float(counts[len(mask)]) / math.comb(n, len(mask))
        means = weight * mean
        for t in range(mask[-1] + 1 if mask else 0, n if len(mask) < largest else 0):
            below = p.sum(axis=t, keepdims=True)
            smoother = (p[..., None] * mean).sum(axis=t, keepdims=True)
            smoother = np.divide(smoother, below[..., None], out=np.zeros_like(smoother), where=below[..., None] > 0)
            share, sums = visit((*mask, t), smoother, below)
            np.add(total, share * second_moment(p, mean - smoother), out=total)
            weight, means = weight + share, means + sums
        return weight, means

    return total, visit((), family.features, family.p)[1]


def efficiency(family: Family, counts: Array, loss: str = "block") -> Efficiency:
    """The covariances of the estimator whose masks have sizes drawn from ``counts``.

    Args:
        family: the model.
        counts: [N+1] the law of the size of a mask, see :func:`count_law`.
        loss: ``block``, -log p(x_S | x_-S), or ``token``, -(1/K) Σ_{t∈S} log p(x_t | x_-S).

    Raises:
        AnyorderError: θ cannot be learned from such masks.
    """
    if loss == "block":
        variance, means = _block_sums(family, counts)
        hessian = variance  # each mask's likelihood is a true conditional one: the information equality holds
        mean_gradient = means - family.features
    else:
        variance, hessian, mean_gradient = _token_sums(family, counts)
    bound = _inverse(family.covariance(tuple(range(family.length))), "this world's parameters are not identifiable")
    inverse = _inverse(hessian, "these masks do not identify the parameters: mask more positions")
    averaged = inverse @ second_moment(family.p, mean_gradient) @ inverse
    return Efficiency(inverse @ variance @ inverse, averaged, bound)


def _token_sums(family: Family, counts: Array) -> tuple[Array, Array, Array]:
    """Of the token loss: the variance of one mask's gradient, the Hessian, and the gradient's mean over masks."""
    d = family.size
    hessian, variance = np.zeros((d, d)), np.zeros((d, d))
    mean_gradient = np.zeros(family.features.shape)
    expected: dict[Mask, Array] = {}
    share: dict[Mask, float] = {}  # A -> E_S c_A
    for mask, weight in weighted_masks(counts):
        gradient = np.zeros(family.features.shape)
        for a, c in terms(mask, "token"):
            if a not in expected:
                expected[a] = family.expected(a)
            gradient += c * expected[a]
            share[a] = share.get(a, 0.0) + weight * c
        mean_gradient += weight * gradient
        variance += weight * second_moment(family.p, gradient)
    for a, c in share.items():
        hessian += c * family.covariance(a) if a else 0.0
    return variance, hessian, mean_gradient


def _inverse(matrix: Array, otherwise: str) -> Array:
    """The inverse of a symmetric positive definite matrix, or an error that says what its absence means."""
    matrix = (matrix + matrix.T) / 2
    values = np.linalg.eigvalsh(matrix)
    if values[0] <= 1e-13 * values[-1]:
        raise AnyorderError(f"{otherwise} (smallest eigenvalue {values[0]:.2g} of the information matrix)")
    return np.asarray(linalg.inv(matrix))
