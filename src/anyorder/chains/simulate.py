"""The same efficiencies by experiment: fit on n samples, many times over, and look at the spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyorder.chains.efficiency import terms, weighted_masks
from anyorder.chains.family import Family, Mask
from anyorder.chains.transition import Array, block_states
from anyorder.chains.worlds import check_memory
from anyorder.errors import AnyorderError

_NEWTON_STEPS = 50
_USUAL_STEPS = 8
_TOLERANCE = 1e-9
_HELD = 2**25  # numbers held at once by a step of the fit


class NoFit(AnyorderError):
    """Too few samples: the loss has no minimum near the truth in any repeat."""


@dataclass(frozen=True)
class Simulation:
    """The spread of an estimator over repeats."""

    covariance: Array  # [d, d] n · Cov(θ̂)
    ratio: float  # its trace over the Cramér–Rao bound's
    standard_error: float  # of the ratio
    repeats: int  # that converged
    failed: int  # whose likelihood had no maximum within reach (too few samples)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON."""
        return {
            "ratio": self.ratio,
            "standard_error": self.standard_error,
            "repeats": self.repeats,
            "failed": self.failed,
        }


def simulate(
    family: Family,
    counts: Array,
    bound: Array,
    *,
    samples: int = 2000,
    repeats: int = 200,
    loss: str = "block",
    averaged: bool = False,
    seed: int = 0,
) -> Simulation:
    """Draw ``samples`` texts (and masks), minimise the loss by Newton's method, repeat; all repeats at once.

    Args:
        family: the model; the truth is θ = 0, where every fit starts.
        counts: [N+1] the law of the size of a mask.
        bound: the Cramér–Rao bound to compare with.
        samples: n.
        repeats: how many fits.
        loss: as in :func:`anyorder.chains.efficiency.efficiency`.
        averaged: every sample with all masks, weighted by their probability, instead of one drawn mask.
        seed: of texts and masks.
    """
    if samples < 1 or repeats < 2:
        raise AnyorderError("a simulation needs at least one sample and two repeats")
    masks = list(weighted_masks(counts))
    weights = _weights(family, masks, samples, repeats, loss, averaged, np.random.default_rng(seed))
    theta, converged = _newton(family, weights, repeats)
    good = theta[converged]
    if len(good) < 2:
        raise NoFit(f"no fit converged on {samples} samples: use more with --samples")
    covariance = samples * np.atleast_2d(np.cov(good.T))
    # The trace is a mean over repeats of squared deviations, so its standard error is that of a mean.
    each = samples * ((good - good.mean(0)) ** 2).sum(-1) * len(good) / (len(good) - 1)
    trace = float(np.trace(bound))
    error = float(each.std(ddof=1) / np.sqrt(len(each)) / trace)
    return Simulation(covariance, float(np.trace(covariance)) / trace, error, len(good), int((~converged).sum()))


def operations(family: Family, counts: Array, loss: str, repeats: int) -> float:
    """About how many floating-point operations the two experiments on one masking law take."""
    d, v, n = family.size, family.p.shape[0], family.length
    sets = {a for mask, _ in weighted_masks(counts) for a, _ in terms(mask, loss) if a}
    step = sum(v ** (n - len(a)) * d**2 + v**n * d for a in sets) + v**n * d**2
    return 2.0 * repeats * step * 2 * _USUAL_STEPS


def _weights(
    family: Family,
    masks: list[tuple[Mask, float]],
    samples: int,
    repeats: int,
    loss: str,
    averaged: bool,
    generator: np.random.Generator,
) -> dict[Mask, Array]:
    """A -> [R, V^(N-k)] the signed weight of log Z_A(x_-A) in each repeat's mean loss, by x_-A."""
    p, v, n = family.p.ravel(), family.p.shape[0], family.length
    sets = {a for mask, _ in masks for a, _ in terms(mask, loss)}
    need = 16.0 * repeats * sum(float(v) ** (n - len(a)) for a in sets)
    check_memory(need, f"fitting {repeats} times at once on {len(masks)} masks of {n} positions")
    weights: dict[Mask, Array] = {}

    def add(mask: Mask, count: Array) -> None:
        for a, c in terms(mask, loss):
            seen = c * count[:, block_states(v, n, a)].sum(-1)  # log Z_A sees x_-A only
            weights[a] = weights[a] + seen if a in weights else seen

    if averaged:
        count = generator.multinomial(samples, p, size=repeats) / samples
        for mask, weight in masks:
            add(mask, weight * count)
        return weights
    # Texts and masks are independent: how many samples fall to each mask, then which texts they are.
    share = generator.multinomial(samples, [weight for _, weight in masks], size=repeats)  # [R, masks]
    for (mask, _), fallen in zip(masks, share.T, strict=True):
        add(mask, generator.multinomial(fallen, p) / samples)
    return weights


def _newton(family: Family, weights: dict[Mask, Array], repeats: int) -> tuple[Array, NDArray[np.bool_]]:
    """Minimise Σ_A ⟨w_A, log Z_A(θ)⟩ for every repeat: (θ̂ [R, d], converged [R])."""
    d, v, n = family.size, family.p.shape[0], family.length
    features, p = family.features.reshape(-1, d), family.p.ravel()
    groups = {a: block_states(v, n, a) for a in weights}  # A -> [V^(N-k), V^k]
    theta, alive = np.zeros((repeats, d)), np.ones(repeats, dtype=bool)
    settled = np.zeros(repeats, dtype=bool)
    for _ in range(_NEWTON_STEPS):
        active = np.flatnonzero(alive & ~settled)
        # A few repeats at a time: what a step holds is [R, V^N, d] numbers.
        for run in np.array_split(active, -(-len(active) * p.size * d // _HELD)) if len(active) else ():
            gradient, hessian = _derivatives(features, p, groups, {a: w[run] for a, w in weights.items()}, theta[run])
            values = np.linalg.eigvalsh(hessian)
            solvable = values[:, 0] > 1e-12 * values[:, -1]
            alive[run[~solvable]] = False  # flat or bent the wrong way: no maximum near the truth
            step = np.linalg.solve(hessian[solvable], gradient[solvable][..., None])[..., 0]
            # Far from the optimum a full step may overshoot; shorter ones get there too.
            step *= np.minimum(1.0, 1.0 / np.maximum(np.abs(step).max(-1, keepdims=True), 1e-300))
            theta[run[solvable]] -= step
            settled[run[solvable]] = np.abs(step).max(-1) < _TOLERANCE
    return theta, alive & settled


def _derivatives(
    features: Array, p: Array, groups: dict[Mask, NDArray[np.intp]], weights: dict[Mask, Array], theta: Array
) -> tuple[Array, Array]:
    """Gradient [R, d] and Hessian [R, d, d] of Σ_A ⟨w_A, log Z_A(θ)⟩: Σ w_A E(T | x_-A), and Σ w_A Cov(T | x_-A).

    Both are sums over states once w_A p(x_A | x_-A) has been added up over the masks; only the squared means are not.
    """
    tilt = theta @ features.T
    density = p * np.exp(tilt - tilt.max(-1, keepdims=True))  # [R, V^N]
    total, within = np.zeros_like(density), np.zeros_like(density)
    squared_means = np.zeros((len(theta), features.shape[1], features.shape[1]))
    for a, w in weights.items():
        index = groups[a]
        inside = density[:, index]
        inside = inside / np.maximum(inside.sum(-1, keepdims=True), 1e-300)  # [R, G, V^k]
        spread = w[:, :, None] * inside
        total[:, index] += spread
        if a:  # Cov(T | everything) is zero
            within[:, index] += spread
            mean = np.matmul(inside.transpose(1, 0, 2), features[index]).transpose(1, 0, 2)  # [R, G, d]
            squared_means += np.matmul((w[:, :, None] * mean).transpose(0, 2, 1), mean)
    squares = np.stack([features.T @ (row[:, None] * features) for row in within])
    return total @ features, squares - squared_means
