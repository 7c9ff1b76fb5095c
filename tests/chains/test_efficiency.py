"""Theorems 1, 2 and 5 of the lab on many worlds, and theory against experiment."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given

from anyorder.chains.efficiency import count_law, efficiency, information, weighted_masks
from anyorder.chains.family import Family, make_family
from anyorder.chains.mixing import poincare_constant
from anyorder.chains.simulate import simulate
from anyorder.chains.transition import gibbs_matrix, law, masked_matrix
from anyorder.chains.worlds import World, make_world
from anyorder.errors import AnyorderError
from anyorder.masking.priors import Beta, Fixed, Uniform, UniformCount
from anyorder.studies.lab import efficiency_row, parse_masks
from chains.small_worlds import exact, worlds


def is_below(a: np.ndarray, b: np.ndarray) -> bool:
    """a ≤ b in the positive-semidefinite order, to rounding."""
    return bool(np.linalg.eigvalsh(b - a)[0] >= -1e-8 * np.abs(b).max())


def loss_of(family: Family, theta: np.ndarray, x: tuple[int, ...], mask: tuple[int, ...], loss: str) -> float:
    """-log p_θ(x_S | x_-S), or the mean over t in S of -log p_θ(x_t | x_-S), by summing the table."""
    p = family.p * np.exp(family.features @ theta)
    rest = p[tuple(slice(None) if t in mask else x[t] for t in range(family.length))]  # axes: S, ascending
    rest = rest / rest.sum()
    inside = [x[t] for t in sorted(mask)]
    if loss == "block":
        return -float(np.log(rest[tuple(inside)]))
    others = [tuple(j for j in range(len(mask)) if j != i) for i in range(len(mask))]
    return -float(np.mean([np.log(rest.sum(axis=o)[inside[i]]) for i, o in enumerate(others)]))


def numeric(family: Family, masks: list[tuple[tuple[int, ...], float]], loss: str) -> tuple[np.ndarray, ...]:
    """(H, V for one mask a sample, V for the averaged loss), all derivatives by differences of the loss itself."""
    d, h = family.size, 1e-3
    basis = np.eye(d) * h
    hessian, one, averaged = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    for x in np.ndindex(*family.p.shape):
        weight, mean = family.p[x], np.zeros(d)
        for mask, rho in masks:

            def f(theta: np.ndarray, mask: tuple[int, ...] = mask, x: tuple[int, ...] = x) -> float:
                return loss_of(family, theta, x, mask, loss)

            g = np.array([(f(e) - f(-e)) / (2 * h) for e in basis])
            one += weight * rho * np.outer(g, g)
            mean += rho * g
            for i in range(d):
                for j in range(d):
                    a, b = basis[i], basis[j]
                    mixed = f(a + b) - f(a - b) - f(b - a) + f(-a - b)
                    hessian[i, j] += weight * rho * mixed / (4 * h * h)
        averaged += weight * np.outer(mean, mean)
    return hessian, one, averaged


@pytest.mark.parametrize("loss", ["block", "token"])
def test_covariances_from_the_loss_itself(loss: str) -> None:
    family = make_family(make_world("random", n=3, coupling=0.7, seed=2))
    family = Family(family.p, family.features[..., [0, 2, 4]], tuple(family.names[i] for i in (0, 2, 4)))
    counts = np.array([0.1, 0.3, 0.6, 0.0])
    masks = [(mask, rho) for mask, rho in weighted_masks(counts) if mask]
    hessian, one, averaged = numeric(family, masks, loss)
    inverse = np.linalg.inv(hessian)
    found = efficiency(family, counts, loss)
    np.testing.assert_allclose(found.covariance, inverse @ one @ inverse, rtol=1e-4)
    np.testing.assert_allclose(found.averaged, inverse @ averaged @ inverse, rtol=1e-4)


@given(worlds())
@exact
def test_theorem_1_mixing_bounds_the_covariance(world: World) -> None:
    family = make_family(world)
    n = world.table.length
    for k in range(1, n + 1):
        found = efficiency(family, count_law(k, n))
        constant = poincare_constant(gibbs_matrix(world.table, k), law(world.table))
        assert is_below(found.covariance, constant * found.bound)
        assert found.worst <= constant * (1 + 1e-6)
    for prior in (Uniform(), Beta(2.0, 5.0)):
        counts = count_law(prior, n)
        constant = poincare_constant(masked_matrix(world.table, counts), law(world.table))
        assert is_below(efficiency(family, counts).covariance, constant * efficiency(family, counts).bound)


@given(worlds())
@exact
def test_theorem_2_masking_more_is_better(world: World) -> None:
    family = make_family(world)
    n = world.table.length
    found = [efficiency(family, count_law(k, n)) for k in range(1, n + 1)]
    for less, more in pairwise(found):
        assert is_below(more.covariance, less.covariance)
    np.testing.assert_allclose(found[-1].covariance, found[-1].bound, rtol=1e-7, atol=1e-9)
    for each in found:
        assert is_below(each.bound, each.averaged)  # no estimator beats Cramér and Rao
        assert is_below(each.averaged, each.covariance)  # averaging the masks out never hurts


@given(worlds())
@exact
def test_the_information_is_the_mean_conditional_covariance_of_the_score(world: World) -> None:
    family, n = make_family(world), world.table.length
    p, score = family.p, family.features - (family.p[..., None] * family.features).sum(tuple(range(n)))
    k = max(1, n - 1)
    total = np.zeros((family.size, family.size))
    for mask in combinations(range(n), k):
        keep = [t for t in range(n) if t not in mask]
        for context in np.ndindex(*[p.shape[0]] * len(keep)):
            where = tuple(context[keep.index(t)] if t in keep else slice(None) for t in range(n))
            q, s = p[where].ravel(), score[where].reshape(-1, family.size)
            centred = s - q @ s / q.sum()
            total += (q[:, None] * centred).T @ centred / math.comb(n, k)
    np.testing.assert_allclose(information(family, count_law(k, n)), total, atol=1e-10)


def test_theorem_5_the_uniform_prior_beside_fixed_masks() -> None:
    """K uniform on 1..N: better than the 15 % of BERT, close to half, and it keeps every size in training."""
    for name, coupling in (("ising-chain", 0.3), ("ising-chain", 0.8), ("ising-clique", 0.2)):
        world = make_world(name, n=6, coupling=coupling)
        family = make_family(world)
        bert, half, uniform = (
            efficiency(family, count_law(m, 6)).ratio for m in (max(1, round(0.15 * 6)), 3, UniformCount())
        )
        assert 1 < uniform < bert
        assert half < bert
        assert uniform == pytest.approx(half, rel=0.35)
        bernoulli = efficiency(family, count_law(Fixed(0.15), 6)).ratio
        assert uniform < bernoulli


@pytest.mark.parametrize("loss", ["block", "token"])
@pytest.mark.parametrize("masks", ["1", "2", "uniform"])
def test_experiment_agrees_with_theory(masks: str, loss: str) -> None:
    row = efficiency_row(make_world("ising-chain", n=4, coupling=0.5), masks, loss, samples=4000, seed=1)
    assert row.exact is not None
    for theory, fits in ((row.exact.ratio, row.simulated), (row.exact.averaged_ratio, row.simulated_averaged)):
        assert fits is not None
        assert fits.failed == 0
        assert abs(fits.ratio - theory) < 4 * fits.standard_error


def test_the_fits_find_the_minimum() -> None:
    """One repeat's fit, by its gradient on the loss written out: Newton has not stopped somewhere else."""
    from anyorder.chains import simulate as module

    family = make_family(make_world("random", n=3, coupling=0.5))
    masks = list(weighted_masks(count_law(2, 3)))
    weights = module._weights(family, masks, 500, 2, "block", True, np.random.default_rng(0))
    count = -weights[()][0]  # log Z_∅ carries each text's share, negatively
    theta, converged = module._newton(family, weights, 2)
    assert converged.all()

    def total(theta: np.ndarray) -> float:
        parts = [
            weight * c * loss_of(family, theta, x, mask, "block")
            for mask, weight in masks
            for x, c in zip(np.ndindex(*family.p.shape), count, strict=True)
        ]
        return float(sum(parts))

    for e in np.eye(family.size) * 1e-4:
        assert abs(total(theta[0] + e) - total(theta[0] - e)) / 2e-4 < 1e-6


def test_token_loss_on_a_fully_masked_text_sees_no_coupling() -> None:
    row = efficiency_row(make_world("ising-chain", n=3), "3", "token", repeats=0)
    assert row.exact is None
    assert "do not identify" in row.remark
    assert efficiency_row(make_world("ising-chain", n=3), "3", "block", repeats=0).exact is not None


def test_bad_input() -> None:
    family = make_family(make_world("ising-chain", n=3))
    with pytest.raises(AnyorderError, match="sizes from 1 to 3"):
        count_law(4, 3)
    with pytest.raises(AnyorderError, match="unknown masking prior"):
        parse_masks("1,uniforn", 3)
    with pytest.raises(AnyorderError, match="two repeats"):
        simulate(family, count_law(1, 3), np.eye(5), repeats=1)
    with pytest.raises(AnyorderError, match="no fit converged"):
        simulate(family, count_law(1, 3), np.eye(5), samples=2)
    assert parse_masks("1,beta:2,5,uniform", 3) == ["1", "beta:2,5", "uniform"]


def test_masks_that_no_fit_converges_on_keep_their_theory() -> None:
    row = efficiency_row(make_world("ising-chain", n=3), "1", samples=2, repeats=4)
    assert row.exact is not None
    assert row.simulated is None
    assert "--samples" in row.remark


def test_an_experiment_that_would_take_long_waits_to_be_asked_for() -> None:
    assert efficiency_row(make_world("ising-clique", n=3, coupling=0.2), "1").simulated is not None
    row = efficiency_row(make_world("ising-clique", n=10, coupling=0.2), "uniform")
    assert row.exact is not None
    assert row.simulated is None
    assert "--repeats" in row.remark
