"""Quantiles and intervals against scipy's and against simulation."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from anyorder.stats import Interval, mean_estimate, perplexity, ratio_estimate, to_json, widening, wilson


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (7, 10), (10, 10), (613, 1000)])
def test_wilson_is_scipys(successes: int, trials: int) -> None:
    interval = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson(successes, trials) == pytest.approx((interval.low, interval.high), abs=1e-9)


def test_wilson_of_nothing_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_perplexity_weighs_texts_by_their_tokens() -> None:
    value, low, high = perplexity([-2.0, -30.0], [2, 10])
    assert value == pytest.approx(math.exp(32 / 12))
    assert low < value < high
    assert all(math.isnan(x) for x in perplexity([0.0], [0]))
    assert math.isnan(perplexity([-3.0], [3])[1])


def test_perplexity_interval_covers_the_truth() -> None:
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(400):
        tokens = torch.randint(3, 30, (60,), generator=generator)
        log_probs = -3 * tokens + torch.randn(60, generator=generator) * tokens.sqrt() * 2
        _, low, high = perplexity(log_probs.tolist(), tokens.tolist())
        covered += low <= math.exp(3) <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_the_error_of_a_ratio_knows_that_tokens_of_a_text_are_alike() -> None:
    """Some texts stutter again and again, most never: as if every neighbour were independent, a third of the spread."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(2000):
        rates = torch.rand(16, generator=generator) ** 8
        hits = torch.binomial(torch.full((16,), 23.0), rates, generator=generator)
        found.append(ratio_estimate(hits.tolist(), [23] * 16))
    values = torch.tensor([one.value for one in found])
    claimed = float(torch.tensor([one.standard_error for one in found]).mean())
    assert claimed == pytest.approx(float(values.std()), rel=0.1)
    assert math.sqrt(float(values.mean() * (1 - values.mean())) / (16 * 23)) < claimed / 2
    assert math.isnan(ratio_estimate([1], [4]).standard_error)


def test_widening_is_students() -> None:
    for freedom in (1.0, 1.3, 2.0, 7.5, 40.0):
        assert widening(freedom) == pytest.approx(stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975), rel=1e-9)


def test_numbers_that_are_not_finite_become_none() -> None:
    found = to_json({"a": [1.0, math.nan], "b": {"c": math.inf, "d": "nan"}, "e": (True, None, 3)})
    assert found == {"a": [1.0, None], "b": {"c": None, "d": "nan"}, "e": [True, None, 3]}
    assert mean_estimate([2.0]).to_dict() == {"value": 2.0, "standard_error": None, "samples": 1}


def test_an_interval_as_text() -> None:
    assert f"{Interval(1.234, 1.1, 1.4):.2f}" == "1.23 (1.10 to 1.40)"
    assert f"{Interval(0.5, math.nan, math.nan):.0%}" == "50% (no interval from one)"
    assert f"{Interval(math.nan, math.nan, math.nan):.0%}" == "not measured"
