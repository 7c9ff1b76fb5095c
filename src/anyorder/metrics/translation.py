"""BLEU and chrF as sacrebleu counts them, with intervals by paired bootstrap (Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anyorder.errors import AnyorderError

NAMES = ("BLEU", "chrF")


@dataclass(frozen=True, eq=False)
class Scored:
    """One system's texts under one metric: what is counted in each text, and what the counts amount to."""

    metric: Any  # sacrebleu's
    counts: np.ndarray  # [texts, statistics]

    def of(self, rows: np.ndarray | None = None) -> float:
        """The corpus score of all texts, or of the texts ``rows`` (with repeats)."""
        counts = self.counts if rows is None else self.counts[rows]
        return float(self.metric._compute_score_from_stats(counts.sum(0).tolist()).score)

    @property
    def signature(self) -> str:
        """sacrebleu's own description of what was counted."""
        return str(self.metric.get_signature())


def scored(name: str, texts: Sequence[str], references: Sequence[Sequence[str]]) -> Scored:
    """``texts`` against one or more sets of references, each with a text for every text.

    sacrebleu counts each text by itself and sums; its counts per text are what its own paired tests resample.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise AnyorderError("BLEU and chrF come with sacrebleu: pip install 'anyorder[translate]'") from None
    if any(len(each) != len(texts) for each in references):
        raise AnyorderError(f"{len(texts)} translations but another number of references: give one for each")
    metric = {"BLEU": BLEU, "chrF": CHRF}[name](references=[list(each) for each in references])
    return Scored(metric, np.asarray(metric._extract_corpus_statistics(list(texts), None), dtype=float))


def bootstrap(systems: Sequence[Scored], resamples: int, seed: int) -> list[np.ndarray]:
    """The scores of each system on the same ``resamples`` draws of the texts with replacement, [resamples] each."""
    rng = np.random.default_rng(seed)
    count = len(systems[0].counts)
    draws = [rng.integers(0, count, count) for _ in range(resamples)]
    return [np.array([one.of(rows) for rows in draws]) for one in systems]
