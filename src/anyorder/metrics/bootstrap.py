"""Bootstrap intervals of any statistic of examples, and of the difference of two models on the same examples.

A replicate draws the examples anew with replacement, the same ones for both models (paired), and each model's runs too
where it was trained several times. The interval holds the middle 95 % of the replicates (Efron & Tibshirani 1993,
chapter 13). Few runs understate their own spread: with n of them by a factor of (n - 1) / n in variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from anyorder.stats import Interval

Statistic = Callable[[NDArray[np.int64]], float]  # indices of examples, some of them several times -> a number
REPLICATES = 1000


def replicates(
    runs: Sequence[Statistic], n: int, against: Sequence[Statistic] = (), *, count: int | None = None, seed: int = 0
) -> NDArray[np.float64]:
    """[``count`` or REPLICATES] values of the mean over runs, minus that of ``against``, each over its own draw of the
    ``n`` examples."""
    rng = np.random.default_rng(seed)
    drawn = np.empty(count or REPLICATES)
    for i in range(len(drawn)):
        examples = rng.integers(n, size=n)
        drawn[i] = _mean(runs, examples, rng) - (_mean(against, examples, rng) if against else 0.0)
    return drawn


def _mean(runs: Sequence[Statistic], examples: NDArray[np.int64], rng: np.random.Generator) -> float:
    """The mean over as many runs as there are, drawn with replacement; each is asked once."""
    times = np.bincount(rng.integers(len(runs), size=len(runs)), minlength=len(runs))
    return sum(t * run(examples) for t, run in zip(times.tolist(), runs, strict=True) if t) / len(runs)


def middle(value: float, drawn: NDArray[np.float64]) -> Interval:
    """``value`` with the middle 95 % of its replicates; NaN ends without any."""
    if not len(drawn):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(value, float(low), float(high))


def bootstrap(runs: Sequence[Statistic], n: int, against: Sequence[Statistic] = (), *, seed: int = 0) -> Interval:
    """The mean over runs (minus that of ``against``) on all ``n`` examples, with its 95 % interval."""
    everything = np.arange(n)
    value = float(np.mean([run(everything) for run in runs]))
    if against:
        value -= float(np.mean([run(everything) for run in against]))
    return middle(value, replicates(runs, n, against, seed=seed))
