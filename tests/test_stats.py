"""Quantiles and intervals against scipy's and against simulation."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from anyorder.stats import perplexity, widening, wilson


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
    assert perplexity([-3.0], [3], [0.3])[1] < math.e


def test_perplexity_interval_covers_the_truth() -> None:
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(400):
        tokens = torch.randint(3, 30, (60,), generator=generator)
        log_probs = -3 * tokens + torch.randn(60, generator=generator) * tokens.sqrt() * 2
        _, low, high = perplexity(log_probs.tolist(), tokens.tolist())
        covered += low <= math.exp(3) <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_widening_is_students() -> None:
    for freedom in (1.0, 1.3, 2.0, 7.5, 40.0):
        assert widening(freedom) == pytest.approx(stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975), rel=1e-9)
