"""Confidence intervals of shares and of perplexities."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anyorder.scoring.student import Z95, widening


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; (0, 1) if nothing was tried."""
    if trials == 0:
        return 0.0, 1.0
    share, z2 = successes / trials, Z95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z95 / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def perplexity(
    log_probs: Sequence[float], tokens: Sequence[int], errors: Sequence[float] | None = None
) -> tuple[float, float, float]:
    """exp(-Σ log p / Σ tokens) over texts, with its 95 % interval.

    The texts are the sample: the variance is that of a ratio of two sums over them (the delta method), on the log
    scale, where it is close to normal. ``errors`` are the texts' own standard errors where they were estimated: that
    spread is already in the differences between texts, so only a single text needs them.

    Returns:
        The perplexity and the ends of its interval; NaN ends if a single exact text leaves nothing to compare.
    """
    total = sum(tokens)
    if total == 0:
        return math.nan, math.nan, math.nan
    mean = sum(log_probs) / total
    n = len(tokens)
    if n > 1:
        squares = sum((lp - mean * t) ** 2 for lp, t in zip(log_probs, tokens, strict=True))
        error = math.sqrt(squares * n / (n - 1)) / total * widening(float(min(n - 1, 1000)))
    else:
        error = errors[0] / total if errors is not None and errors[0] > 0 else math.nan
    return math.exp(-mean), math.exp(-mean - Z95 * error), math.exp(-mean + Z95 * error)
