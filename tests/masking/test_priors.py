"""α_M in closed form (eq 4, 5, 9) against sums over every mask and against quadrature."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from anyorder.errors import AnyorderError
from anyorder.masking import Beta, Fixed, FixedCount, RootCount, Uniform, UniformCount, log_count, parse_prior

PRIORS = [Uniform(), Fixed(0.15), Beta(2.0, 5.0), FixedCount(3), UniformCount(), RootCount()]


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
@pytest.mark.parametrize("n", [1, 4, 6])
def test_alpha_sums_to_one_over_all_masks(prior, n):
    masks = itertools.product([0, 1], repeat=n)
    total = sum(prior.log_alpha(torch.tensor(sum(m)), n).exp().item() for m in masks)
    assert total == pytest.approx(1.0, abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 40), share=st.floats(0, 1), a=st.floats(0.5, 8), b=st.floats(0.5, 8))
def test_beta_and_uniform_match_quadrature(n, share, a, b):
    k = round(share * n)
    for prior, density in [(Beta(a, b), stats.beta(a, b).pdf), (Uniform(), lambda r: 1.0)]:
        # substituting r = sin²(t) tames the density's poles at 0 and 1
        def integrand(t, density=density):
            r = math.sin(t) ** 2
            return r**k * (1 - r) ** (n - k) * density(r) * 2 * math.sin(t) * math.cos(t)

        expected, _ = integrate.quad(integrand, 0, math.pi / 2, limit=200, epsabs=0)
        assert prior.log_alpha(torch.tensor(k), n).exp().item() == pytest.approx(expected, rel=1e-4)


def test_uniform_alpha_is_the_factorial_form():
    n, k = 9, 4
    expected = math.factorial(n - k) * math.factorial(k) / math.factorial(n + 1)
    assert Uniform().log_alpha(torch.tensor(k), n).exp().item() == pytest.approx(expected, rel=1e-12)


def test_counts():
    assert torch.allclose(log_count(Uniform(), 7).exp(), torch.full((8,), 1 / 8, dtype=torch.float64))
    assert torch.allclose(log_count(Beta(1, 1), 7), log_count(Uniform(), 7))
    expected = torch.tensor(stats.binom(20, 0.15).pmf(range(21)))
    assert torch.allclose(log_count(Fixed(0.15), 20).exp(), expected)
    assert log_count(UniformCount(), 5).exp().tolist() == pytest.approx([0, 0.2, 0.2, 0.2, 0.2, 0.2])
    root = [0, 1, 2**-0.5, 3**-0.5, 0.5]
    assert log_count(RootCount(), 4).exp().tolist() == pytest.approx([r / sum(root) for r in root])
    assert log_count(FixedCount(3), 5).exp().tolist() == pytest.approx([0, 0, 0, 1, 0, 0])
    assert log_count(FixedCount(3), 2).exp().tolist() == pytest.approx([0, 0, 1])  # a shorter text is masked whole


def test_parse():
    assert parse_prior("uniform") == Uniform()
    assert parse_prior("uniform-count") == UniformCount()
    assert parse_prior("root-count") == RootCount()
    assert parse_prior("fixed:0.15") == Fixed(0.15)
    assert parse_prior("beta:2,5") == Beta(2, 5)
    assert parse_prior("count:3") == FixedCount(3)


@pytest.mark.parametrize(("a", "b"), [(1e-6, 1e-6), (1e6, 1e6), (1e-6, 1e6)])
def test_the_limits_of_beta_keep_their_digits(a, b):
    assert float(log_count(parse_prior(f"beta:{a},{b}"), 512).exp().sum()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "uniforme",
        "fixed",
        "fixed:0",
        "fixed:1.5",
        "beta:1",
        "beta:0,1",
        "beta:inf,1",
        "beta:1e15,1e15",
        "count:0",
        "count:x",
        "count:inf",
    ],
)
def test_parse_refuses(spec):
    with pytest.raises(AnyorderError, match="unknown masking prior"):
        parse_prior(spec)
