"""Bootstrap intervals against what is known of means, and pairing against not pairing."""

from __future__ import annotations

import numpy as np
import pytest

from anyorder.metrics.bootstrap import bootstrap, replicates


def mean_of(values: np.ndarray):
    return lambda chosen: float(values[chosen].mean())


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(size=400)
    found = bootstrap([mean_of(values)], 400)
    half = 1.96 * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.02)
    assert found.high == pytest.approx(values.mean() + half, abs=0.02)


def test_coverage_of_the_difference() -> None:
    """The true difference of 0.3 lies within 95 % intervals about 19 times of 20."""
    rng, hits = np.random.default_rng(1), 0
    for seed in range(60):
        both = rng.normal(size=60)
        a, b = both + 0.3 + 0.5 * rng.normal(size=60), both
        drawn = replicates([mean_of(a)], 60, [mean_of(b)], count=150, seed=seed)
        low, high = np.quantile(drawn, [0.025, 0.975])
        hits += low <= 0.3 <= high
    assert 50 <= hits <= 60


def test_pairs_stay_together() -> None:
    """Equal but for a constant: the paired difference has no spread, whatever the examples."""
    values = np.random.default_rng(2).normal(size=50)
    found = bootstrap([mean_of(values + 1)], 50, [mean_of(values)])
    assert (found.low, found.value, found.high) == pytest.approx((1, 1, 1))


def test_seeds_add_their_spread() -> None:
    values = np.zeros(50)
    runs = [mean_of(values + shift) for shift in (-1.0, 0.0, 1.0)]
    found = bootstrap(runs, 50)
    assert found.value == 0
    assert (found.low, found.high) == pytest.approx((-1, 1))  # the runs' means range that far 1 time in 27 each
    assert bootstrap(runs[1:2], 50).high == 0


def test_a_seed_fixes_the_replicates() -> None:
    values = np.arange(9.0)
    one, two, other = (replicates([mean_of(values)], 9, count=20, seed=seed) for seed in (0, 0, 1))
    assert (one == two).all()
    assert not (one == other).all()
