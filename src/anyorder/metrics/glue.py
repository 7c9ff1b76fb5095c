"""GLUE's metrics (Wang et al. 2018, table 1): pure numbers of predictions and labels.

Each takes arrays [n] and is quick enough to be called thousands of times by a bootstrap; tests compare them with
scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Score = TypeVar("Score", float, Numbers)


def accuracy(predicted: Numbers, gold: Numbers) -> float:
    """The share of predictions that are right."""
    return float((predicted == gold).mean())


def f1(predicted: Numbers, gold: Numbers) -> float:
    """2 tp / (2 tp + fp + fn) of class 1; 0 if it occurs nowhere."""
    hits = float(((predicted == 1) & (gold == 1)).sum())
    claimed = float((predicted == 1).sum() + (gold == 1).sum())
    return 2 * hits / claimed if claimed else 0.0


def pearson(predicted: Numbers, gold: Numbers) -> float:
    """Pearson's correlation; 0 where one side is constant, as a prediction that says nothing."""
    a, b = predicted - predicted.mean(), gold - gold.mean()
    norm = float(np.sqrt((a @ a) * (b @ b)))
    # what is left of a constant's differences by rounding is no variation
    flat = np.ptp(predicted) == 0 or np.ptp(gold) == 0
    return 0.0 if flat or norm == 0 else float(a @ b) / norm


def spearman(predicted: Numbers, gold: Numbers) -> float:
    """Pearson's correlation of the ranks, ties sharing theirs."""
    from scipy.stats import rankdata

    return pearson(rankdata(predicted), rankdata(gold))


def matthews(predicted: Numbers, gold: Numbers) -> float:
    """Matthews' correlation of two classes: Pearson's of zeros and ones."""
    return pearson(predicted, gold)


METRICS: dict[str, Callable[[Numbers, Numbers], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def glue_average(scores: Mapping[str, list[Score]]) -> Score:
    """GLUE's average: over tasks, each the mean of its metrics; ``mnli`` and ``mnli-mm`` are one task.

    Args:
        scores: each test set's metrics, as numbers or as arrays of replicates.
    """
    tasks: dict[str, list[Score]] = {}
    for name, values in scores.items():
        tasks.setdefault(name.partition("-")[0], []).extend(values)
    return sum(sum(values) / len(values) for values in tasks.values()) / len(tasks)  # type: ignore[return-value]  # sum begins at 0
