from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse, stats

from anyorder.chains import mixing, mixing_time
from anyorder.chains.kernels import make_kernel
from anyorder.chains.mixing import analyse, divergence, poincare_constant, total_variation
from anyorder.chains.structure import check_stochastic, stationary, structure
from anyorder.chains.symmetry import representatives
from anyorder.chains.transition import dense, gibbs_matrix, law
from anyorder.chains.worlds import World, make_world
from anyorder.errors import AnyorderError
from chains.small_worlds import exact, worlds


def slow_mixing_time(p: np.ndarray, pi: np.ndarray) -> int:
    """Step by step, from every state."""
    rows, time = np.eye(len(pi)), 0
    while 0.5 * np.abs(rows - pi).sum(1).max() > 0.25:
        rows, time = rows @ p, time + 1
    return time


@given(worlds())
@exact
def test_gap_and_mixing_time_by_brute_force(world: World) -> None:
    for name in ("gibbs", "parallel", "metropolis"):
        for block in (1, 2):
            kernel = make_kernel(world.table, name, block)
            found = analyse(kernel.matrix, kernel.target)
            p = dense(kernel.matrix)
            assert found.stationary is not None
            np.testing.assert_allclose(found.stationary @ p, found.stationary, atol=1e-12)
            modulus = np.sort(np.abs(np.linalg.eigvals(p)))
            assert found.gap == pytest.approx(1 - modulus[-2], abs=1e-7)
            if found.gap > 1e-3:
                assert found.mixing_time == slow_mixing_time(p, found.stationary)


@given(worlds())
@exact
def test_the_poincare_constant_is_the_least(world: World) -> None:
    """Var f ≤ C · E_S E Var(f | x_-S), with the form written out as the definition says, and C is reached."""
    p, n = law(world.table), world.table.length
    v = world.table.vocab_size
    rng = np.random.default_rng(0)
    constant = poincare_constant(gibbs_matrix(world.table, 1), p)
    joint = p.reshape([v] * n)

    def form(f: np.ndarray) -> float:
        total = 0.0
        for t in range(n):
            mean = (joint * f).sum(t, keepdims=True) / joint.sum(t, keepdims=True)
            total += float((joint * (f - mean) ** 2).sum())
        return total / n

    ratios = []
    for _ in range(50):
        f = rng.standard_normal(joint.shape)
        ratios.append(float((joint * (f - (joint * f).sum()) ** 2).sum()) / form(f))
    assert max(ratios) <= constant * (1 + 1e-9)
    root = np.sqrt(p)
    a = root[:, None] * dense(gibbs_matrix(world.table, 1)) / root
    slowest = (np.linalg.eigh((a + a.T) / 2)[1][:, -2] / root).reshape(joint.shape)
    variance = float((joint * (slowest - (joint * slowest).sum()) ** 2).sum())
    assert variance / form(slowest) == pytest.approx(constant, rel=1e-5)


def test_a_chain_that_overshoots_has_a_poincare_constant_below_one() -> None:
    """Its only other eigenvalue is negative: λ₂ = -0.8, so that C = 1/1.8 while the gap is 0.2."""
    found = analyse(np.array([[0.1, 0.9], [0.9, 0.1]]))
    assert found.poincare == pytest.approx(1 / 1.8)
    assert found.gap == pytest.approx(0.2)


def magnetisation_gap(n: int, coupling: float) -> float:
    """Single-site Gibbs on the clique watched through its number of ups is a birth-death chain on 0..n."""
    p = np.zeros((n + 1, n + 1))
    for ups in range(n + 1):
        rest_if_down, rest_if_up = 2 * ups - (n - 1), 2 * (ups - 1) - (n - 1)
        if ups < n:
            p[ups, ups + 1] = (n - ups) / n / (1 + math.exp(-2 * coupling * rest_if_down))
        if ups:
            p[ups, ups - 1] = ups / n / (1 + math.exp(2 * coupling * rest_if_up))
        p[ups, ups] = 1 - p[ups].sum()
    return 1 - float(np.sort(np.linalg.eigvals(p).real)[-2])


def test_theorem_3_strong_dependence_is_slow_on_the_clique() -> None:
    n, couplings = 6, np.linspace(0.5, 2.0, 7)
    worlds = [make_world("ising-clique", n=n, coupling=float(c)) for c in couplings]
    found = [analyse(gibbs_matrix(w.table, 1), law(w.table)) for w in worlds]
    gaps = np.array([m.gap for m in found])
    for c, gap in zip(couplings, gaps, strict=True):
        if gap > 1e-9:  # beyond, the plain eigenvalues of the check have no digits left
            assert gap == pytest.approx(magnetisation_gap(n, float(c)), rel=1e-4)
    fit = stats.linregress(couplings, np.log(gaps))
    # Exponential, with the barrier as its rate: all aligned has energy -n(n-1)/2, half against half n/2.
    assert fit.rvalue < -0.999
    assert fit.slope == pytest.approx(-(n**2) / 2, rel=0.05)
    for w, m in zip(worlds, found, strict=True):
        lower, upper = (1 / m.gap - 1) * math.log(2), math.log(4 / law(w.table).min()) / m.gap
        assert lower <= m.mixing_time * (1 + 1e-9) <= upper * 1.01 + 1  # Levin & Peres, theorems 12.4 and 12.5
    for w in worlds:
        assert analyse(gibbs_matrix(w.table, n), law(w.table)).gap == pytest.approx(1.0)


def test_theorem_3_a_parallel_step_keeps_another_law_and_both_harms_vanish_with_the_coupling() -> None:
    def harm(coupling: float, block: int) -> float:
        table = make_world("ising-clique", n=4, coupling=coupling).table
        found = analyse(gibbs_matrix(table, block, parallel=True))
        assert found.stationary is not None
        return total_variation(found.stationary, law(table))

    for block in (2, 3, 4):
        assert harm(0.3, block) > 0.01
        distances = [harm(c, block) for c in (0.2, 0.1, 0.05, 0.0)]
        assert sorted(distances, reverse=True) == distances
        assert distances[-1] < 1e-12
    # Independent positions: single-site Gibbs has gap 1/N, the best there is.
    gaps = [analyse(gibbs_matrix(make_world("ising-clique", n=4, coupling=c).table, 1)).gap for c in (0.3, 0.1, 0.0)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == pytest.approx(1 / 4)


def test_large_chains_by_steps_and_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three ways to the mixing time, and both to the gap, agree on chains of every speed."""
    for coupling in (0.1, 0.4, 0.7):
        table = make_world("ising-clique", n=6, coupling=coupling).table
        for block, parallel in ((1, False), (2, True)):
            p = sparse.csr_matrix(gibbs_matrix(table, block, parallel))
            small = analyse(p, law(table))
            with monkeypatch.context() as patch:
                patch.setattr(mixing_time, "_SMALL", 8)
                patch.setattr(mixing, "_DENSE_STATES", 8)
                large = analyse(p, law(table), representatives(table))
            assert large.mixing_time == small.mixing_time
            assert large.gap == pytest.approx(small.gap, rel=1e-6)
            if small.mixing_time < 3000:
                assert small.stationary is not None
                assert small.mixing_time == slow_mixing_time(dense(p), small.stationary)


def test_a_large_world_is_feasible() -> None:
    """2^12 states, sparse: its matrix has 13 entries a row, and its mixing time is found without a dense power."""
    table = make_world("ising-clique", n=12, coupling=0.1).table
    p = gibbs_matrix(table, 1)
    assert sparse.issparse(p)
    assert p.nnz == 13 * 2**12
    found = analyse(p, law(table), representatives(table))
    assert found.gap == pytest.approx(magnetisation_gap(12, 0.1), rel=1e-8)
    # Watched through its number of ups the chain is nearer its end, and the ends of the range are among its starts.
    rows, time = np.eye(13), 0
    ups = table.states.sum(1).numpy()
    pi = np.bincount(ups, weights=law(table))
    step = np.zeros((13, 13))
    for k in range(13):
        step[k] = np.bincount(ups, weights=dense(p[int(np.flatnonzero(ups == k)[0])]).ravel(), minlength=13)
    while 0.5 * np.abs(rows - pi).sum(1)[[0, 12]].max() > 0.25:
        rows, time = rows @ step, time + 1
    assert found.mixing_time >= time


def test_reducible_chains_are_reported() -> None:
    found = analyse(np.kron(np.eye(2), np.full((2, 2), 0.5)))
    assert found.closed_classes == 2
    assert found.gap == 0
    assert found.mixing_time == math.inf
    assert found.stationary is None
    assert "reducible" in found.remark
    assert found.to_dict()["mixing_time"] is None


def test_periodic_chains_are_reported() -> None:
    cycle = np.roll(np.eye(3), 1, axis=1)
    found = analyse(cycle)
    assert found.period == 3
    assert found.mixing_time == math.inf
    np.testing.assert_allclose(found.stationary, 1 / 3)
    flip = analyse(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert flip.reversible
    assert flip.remark == "periodic: period 2"


def test_transient_states_have_no_mass() -> None:
    p = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.0, 0.2, 0.8]])
    found = analyse(p)
    np.testing.assert_allclose(found.stationary, [0, 2 / 7, 5 / 7])
    assert found.gap == pytest.approx(0.7)
    assert found.mixing_time == slow_mixing_time(p, found.stationary)


def test_stationary_law_by_reduction_and_by_lu(monkeypatch: pytest.MonkeyPatch) -> None:
    p = np.random.default_rng(0).dirichlet(np.full(7, 0.3), size=7)
    values, vectors = np.linalg.eig(p.T)
    truth = np.abs(vectors[:, np.argmax(values.real)].real)
    for limit in (100, 0):
        monkeypatch.setattr("anyorder.chains.structure._GTH_STATES", limit)
        np.testing.assert_allclose(stationary(p, structure(p)), truth / truth.sum(), atol=1e-12)


@pytest.mark.parametrize("bad", [[[0.5, 0.6], [0.5, 0.5]], [[1.1, -0.1], [0.5, 0.5]], [[np.nan, 1.0], [0.5, 0.5]]])
def test_what_is_no_chain_is_refused(bad: list[list[float]]) -> None:
    with pytest.raises(AnyorderError, match="transition matrix"):
        check_stochastic(np.array(bad))


def test_divergences() -> None:
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])
    assert divergence(p, q) == pytest.approx(math.log(2))
    assert divergence(q, p) == math.inf
    assert total_variation(p, q) == pytest.approx(0.5)
