"""Arnold–Gokhale on conditionals that belong to no joint: stationarity, descent, and the form on the marginals."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from anyorder.joints import arnold_gokhale
from anyorder.joints.arnold_gokhale import fit, sum_of_conditionals
from joints.known_tables import conditionals_of, incompatible

ALL = slice(None)


def objective(p: Tensor, ab: Tensor, ba: Tensor) -> float:
    """Eq 4 by its definition: the KLs of both families, summed over all conditioning tokens."""
    given_b, given_a = (p / p.sum(0)).T, p / p.sum(1, keepdim=True)
    return float((ab.exp() * (ab - given_b.log())).sum() + (ba.exp() * (ba - given_a.log())).sum())


def naive(ab: Tensor, ba: Tensor, steps: int) -> list[Tensor]:
    """Eq 5 on the whole V×V joint, as in appendix C."""
    c = ab.exp().T + ba.exp()
    p = torch.full_like(c, 1 / c.numel())
    history = []
    for _ in range(steps):
        p = c / (1 / p.sum(1, keepdim=True) + 1 / p.sum(0))
        p = p / p.sum()
        history.append(p)
    return history


@pytest.mark.parametrize("vocab_size", [2, 5, 40])
def test_the_form_on_the_marginals_equals_the_naive_form(vocab_size):
    ab, ba = incompatible(0, vocab_size)
    for steps, p in zip((1, 2, 50), [naive(ab, ba, 50)[i] for i in (0, 1, 49)], strict=True):
        q = arnold_gokhale(ab, ba, tolerance=0, max_iterations=steps, accelerate=False)
        assert q.iterations == steps
        torch.testing.assert_close(q.rows(ALL).exp(), p, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_falls_monotonically(seed):
    ab, ba = incompatible(seed, vocab_size=7)
    values = []
    for steps in range(1, 40):
        q = arnold_gokhale(ab, ba, tolerance=0, max_iterations=steps, accelerate=False)
        values.append(objective(q.rows(ALL).exp(), ab, ba))
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))


@pytest.mark.parametrize("seed", range(5))
def test_small_perturbations_do_not_lower_the_objective(seed):
    """The gradient in log μ vanishes, and the point is a minimum: no direction improves on it."""
    ab, ba = incompatible(seed, vocab_size=5)
    log_p = arnold_gokhale(ab, ba).rows(ALL)
    generator = torch.Generator().manual_seed(seed)
    base = objective(log_p.exp(), ab, ba)
    for _ in range(50):
        direction = torch.randn(5, 5, generator=generator, dtype=torch.float64)
        up, down = (objective((log_p + h * direction).exp(), ab, ba) for h in (1e-4, -1e-4))
        assert abs(up - down) / 2e-4 < 1e-6
        assert min(up, down) >= base


@pytest.mark.parametrize("scale", [0.5, 2.0, 6.0])
def test_acceleration_reaches_the_same_minimum_sooner(scale):
    ab, ba = incompatible(11, vocab_size=12, scale=scale)
    fast = arnold_gokhale(ab, ba)
    slow = arnold_gokhale(ab, ba, accelerate=False, max_iterations=20_000)
    assert fast.iterations < slow.iterations
    torch.testing.assert_close(fast.rows(ALL).exp(), slow.rows(ALL).exp(), atol=1e-8, rtol=0)


def test_a_joint_that_hardly_mixes():
    """Two nearly separate components: plain steps would need thousands."""
    p = torch.tensor([[0.6, 1e-6], [1e-6, 0.4]], dtype=torch.float64)
    q = arnold_gokhale(*conditionals_of(p / p.sum()))
    torch.testing.assert_close(q.rows(ALL).exp(), p / p.sum(), atol=1e-6, rtol=0)


def test_float32_of_a_large_vocabulary():
    """Beyond the size that is kept in float64, single precision still gives six digits of the marginals."""
    ab, ba = incompatible(5, vocab_size=1100)
    exact, single = arnold_gokhale(ab, ba, tolerance=1e-12), arnold_gokhale(ab.float(), ba.float())
    # Small vocabularies are kept in float64 whatever comes in; this one is not.
    assert sum_of_conditionals(ab.float(), ba.float()).dtype == torch.float32
    assert float((exact.marginal(0).exp() - single.marginal(0).exp()).abs().sum()) < 1e-5
    cells = torch.arange(1100)
    torch.testing.assert_close(single.log_prob(cells, cells), exact.log_prob(cells, cells), atol=1e-3, rtol=0)


def test_probabilities_below_the_smallest_float_stay_finite():
    ab = torch.full((1100, 1100), -200.0)
    ab[:, 0] = 0.0
    q = arnold_gokhale(ab, ab)
    assert torch.isfinite(q.log_prob(5, 7))
    assert float(q.marginal(0).exp().sum()) == pytest.approx(1.0)
    assert torch.isfinite(q.rows(slice(0, 3))).all()


def test_one_iteration_is_allowed():
    c = sum_of_conditionals(*incompatible(0))
    assert fit(c, max_iterations=1).iterations == 1


@pytest.mark.parametrize("seed", range(20))
def test_acceleration_does_not_fall_into_a_corner(seed):
    """Nearly independent positions, one favourite each: all mass on one pair looks like a fixed point, but is none."""
    generator = torch.Generator().manual_seed(seed)
    noise = 0.05 * torch.randn(2, 25, 25, generator=generator, dtype=torch.float64)
    favourite = torch.zeros(25, dtype=torch.float64)
    favourite[3] = 5.0
    ab, ba = torch.log_softmax(favourite + noise, -1)
    fast = arnold_gokhale(ab, ba)
    slow = arnold_gokhale(ab, ba, accelerate=False, max_iterations=20_000)
    torch.testing.assert_close(fast.rows(ALL).exp(), slow.rows(ALL).exp(), atol=1e-8, rtol=0)


def test_a_fit_that_stops_at_its_limit_says_so():
    ab, ba = incompatible(4, 12)
    stopped, whole = arnold_gokhale(ab, ba, max_iterations=2), arnold_gokhale(ab, ba)
    assert (stopped.iterations, stopped.converged, whole.converged) == (2, False, True)
    # `change` is the distance between what went into the last pass and what came out of it.
    moved = [(x.exp() - y.exp()).abs().sum() / 2 for x, y in zip(stopped.log_mu, stopped.log_marginals, strict=True)]
    assert stopped.change == pytest.approx(float(max(moved)))
    assert whole.change <= 1e-12 < stopped.change
