"""Numbers that were estimated: standard errors, and confidence intervals of shares and perplexities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

Z95 = 1.959963984540054  # the 97.5 % quantile of the normal


def to_json(value: Any) -> Any:
    """``value`` with None for every number that is not finite, and paths as texts: JSON has none of these."""
    if isinstance(value, dict):
        return {key: to_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Record:
    """The base of results: dataclasses whose fields go to JSON as they are, null where a number is not finite."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return dict(to_json(asdict(cast("Any", self))))


@dataclass(frozen=True)
class Estimate(Record):
    """A number that was estimated, and how well."""

    value: float
    standard_error: float
    samples: int


@dataclass(frozen=True)
class Interval(Record):
    """A figure and the ends of its 95 % interval: NaN if it was not measured, NaN ends if it is that of one example."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """``f"{interval:.2f}"``: 1.23 (1.10 to 1.40)."""
        if math.isnan(self.value):
            return "not measured"
        ends = "no interval from one" if math.isnan(self.low) else f"{self.low:{spec}} to {self.high:{spec}}"
        return f"{self.value:{spec}} ({ends})"


def mean_estimate(values: Any) -> Estimate:
    """The mean of a sample (a list, an array, a tensor), and its standard error."""
    import numpy as np

    each = np.asarray(values, dtype=np.float64)
    error = float(each.std(ddof=1)) / math.sqrt(len(each)) if len(each) > 1 else math.nan
    return Estimate(float(each.mean()), error, len(each))


def sums_estimate(count: float, total: float, squares: float) -> Estimate:
    """:func:`mean_estimate` of two or more numbers, from their count, their sum and the sum of their squares."""
    variance = max(0.0, squares - total**2 / count) / (count - 1)
    return Estimate(total / count, math.sqrt(variance / count), round(count))


def ratio_estimate(tops: Sequence[float], bottoms: Sequence[float]) -> Estimate:
    """Σ tops / Σ bottoms over texts and its standard error by the delta method: a text's tokens resemble each other.

    So the texts are the sample; of a single one the error is NaN.
    """
    n, total = len(bottoms), sum(bottoms)
    value = sum(tops) / total
    squares = sum((top - value * bottom) ** 2 for top, bottom in zip(tops, bottoms, strict=True))
    return Estimate(value, math.sqrt(squares * n / (n - 1)) / total if n > 1 else math.nan, n)


def weighted_estimate(parts: Sequence[tuple[float, Estimate]]) -> Estimate:
    """The mean of independent estimates, each with its weight."""
    total = sum(weight for weight, _ in parts)
    value = sum(weight * part.value for weight, part in parts) / total
    error = math.hypot(*(weight * part.standard_error for weight, part in parts)) / total
    return Estimate(value, error, sum(part.samples for _, part in parts))


@lru_cache(maxsize=4096)
def widening(freedom: float) -> float:
    """The 97.5 % quantile of Student's t with ``freedom`` ≥ 1 degrees of freedom, over that of the normal.

    A standard error multiplied by it makes ``value ± 1.96 standard errors`` an honest 95 % interval.
    """
    from scipy.special import stdtrit  # the quantile of scipy.stats.t, without the second scipy.stats takes to import

    return float(stdtrit(freedom, 0.975)) / Z95


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; (0, 1) if nothing was tried."""
    if trials == 0:
        return 0.0, 1.0
    share, z2 = successes / trials, Z95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z95 / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def perplexity(log_probs: Sequence[float], tokens: Sequence[int]) -> tuple[float, float, float]:
    """exp(-Σ log p / Σ tokens) over texts, with its 95 % interval.

    The texts are the sample: the variance is that of a ratio of two sums over them (the delta method), on the log
    scale, where it is close to normal. Where the log-probabilities were estimated, their own errors are already in the
    differences between texts.

    Returns:
        The perplexity and the ends of its interval; NaN ends if a single text leaves nothing to compare.
    """
    if sum(tokens) == 0:
        return math.nan, math.nan, math.nan
    found = ratio_estimate(log_probs, tokens)
    mean, error = found.value, found.standard_error
    if found.samples > 1:
        error *= widening(float(min(found.samples - 1, 1000)))
    return math.exp(-mean), math.exp(-mean - Z95 * error), math.exp(-mean + Z95 * error)
