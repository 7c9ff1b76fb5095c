"""What one model gave on one test set, example by example: enough for every metric, interval and comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyorder.metrics.bootstrap import Statistic
from anyorder.metrics.glue import METRICS
from anyorder.stats import Record


@dataclass(frozen=True)
class Outcome(Record):
    """Predictions beside labels, or scores that are given example by example.

    Attributes:
        task: the test set, such as ``mnli`` or ``mnli-mm``.
        metrics: their names, in the order they are shown.
        columns: ``predicted`` and ``gold``, or one column of scores per metric: a number per example.
        baseline: each metric of the majority class, or of answering nothing.
        train: examples learnt from.
        cut: texts that were longer than the model.
        details: what else a reader wants to know.
    """

    task: str
    metrics: tuple[str, ...]
    columns: dict[str, list[float]]
    baseline: dict[str, float]
    train: int
    cut: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def examples(self) -> int:
        """How many were measured on."""
        return len(next(iter(self.columns.values())))

    def statistic(self, metric: str) -> Statistic:
        """The metric of some of the examples, in percent."""
        columns = {name: np.asarray(column, dtype=np.float64) for name, column in self.columns.items()}
        if metric in columns:
            each = columns[metric]
            return lambda chosen: 100 * float(each[chosen].mean())
        predicted, gold, of = columns["predicted"], columns["gold"], METRICS[metric]
        return lambda chosen: 100 * of(predicted[chosen], gold[chosen])

    def mean_statistic(self) -> Statistic:
        """The mean of its metrics: what goes into GLUE's average."""
        each = [self.statistic(metric) for metric in self.metrics]
        return lambda chosen: sum(one(chosen) for one in each) / len(each)

    def value(self, metric: str) -> float:
        """The metric of all examples, in percent."""
        return self.statistic(metric)(np.arange(self.examples))

    def same_examples(self, other: Outcome) -> bool:
        """Whether two outcomes may be compared pair by pair."""
        return self.examples == other.examples and self.columns.get("gold") == other.columns.get("gold")

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Outcome:
        """What :meth:`to_dict` gave."""
        return cls(**{**record, "metrics": tuple(record["metrics"])})


def constant_baseline(metrics: Sequence[str], train: Sequence[float], gold: Sequence[float]) -> dict[str, float]:
    """Each metric, in percent, of always giving the commonest label of the training set."""
    labels, counts = np.unique(np.asarray(train), return_counts=True)
    right: NDArray[np.float64] = np.asarray(gold, dtype=np.float64)
    always = np.full(len(right), float(labels[counts.argmax()]))
    return {metric: 100 * METRICS[metric](always, right) for metric in metrics}
