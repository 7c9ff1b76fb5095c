"""Minimal pairs (BLiMP, Warstadt et al. 2020): does the model find the acceptable sentence more probable?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.errors import AnyorderError
from anyorder.files.reading import Source
from anyorder.stats import Z95, Record, wilson
from anyorder.tasks.options import ScoreOptions
from anyorder.tasks.score import score

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

ALL = "all"  # the paradigm of the line that sums up
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences that differ in acceptability only."""

    good: str
    bad: str
    paradigm: str


@dataclass(frozen=True)
class Preference(Record):
    """Two sentences under one method; ``difference`` is log p(a) - log p(b), in nats."""

    method: str
    log_prob_a: float
    log_prob_b: float
    difference: float
    standard_error: float
    prefers: str  # "a", "b", or "undecided": a tie, or an estimate whose 95 % interval holds 0


@dataclass(frozen=True)
class Accuracy(Record):
    """Share of pairs whose acceptable sentence scores strictly higher, with Wilson's 95 % interval."""

    paradigm: str
    method: str
    pairs: int
    accuracy: float
    low: float
    high: float


def read_pairs(path: str, limit: int | None = None) -> list[MinimalPair]:
    """Pairs in BLiMP's format: ``sentence_good``, ``sentence_bad`` and ``UID`` (the file's name if absent)."""
    source = Source(path, format="jsonl")
    name = Path(path).name.split(".")[0]
    pairs: list[MinimalPair] = []
    for number, row in source.objects():
        if limit is not None and len(pairs) >= limit:
            break
        if row:
            remedy = "write pairs in BLiMP's format"
            good, bad = (source.text(number, row, key, remedy) for key in ("sentence_good", "sentence_bad"))
            pairs.append(MinimalPair(good, bad, str(row.get("UID", name))))
    if not pairs:
        raise AnyorderError(f"{path} holds no pairs: it needs lines with sentence_good and sentence_bad")
    return pairs


def compare(lm: MaskedLM, a: str, b: str, methods: Iterable[ScoreOptions]) -> list[Preference]:
    """Which of two sentences each method finds more probable, and by how much."""
    rows = []
    for method in methods:
        first, second = score(lm, [a, b], method)
        difference = first.log_prob - second.log_prob
        error = (first.standard_error**2 + second.standard_error**2) ** 0.5
        sure = difference != 0 and abs(difference) > Z95 * error
        prefers = ("a" if difference > 0 else "b") if sure else "undecided"
        rows.append(Preference(method.method, first.log_prob, second.log_prob, difference, error, prefers))
    return rows


def accuracies(
    lm: MaskedLM, pairs: Sequence[MinimalPair], methods: Sequence[ScoreOptions], progress: Progress | None = None
) -> list[Accuracy]:
    """Accuracy by paradigm and method, in the order the paradigms appear, and over all pairs at the end.

    A tie is not a success. Sentences that occur in several pairs are scored once. Sentences of one length are
    estimated with the same masks, so that most of the noise of an estimate is the same for both of a pair.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.good, pair.bad)))
    hits: dict[tuple[str, str], list[bool]] = {}
    paradigms = list(dict.fromkeys(pair.paradigm for pair in pairs))
    for method in methods:

        def report(done: int, name: str = method.method) -> None:
            if progress is not None:
                progress(name, done, len(texts))

        scores = score(lm, texts, method, common=True, progress=report)
        log_prob = {result.text: result.log_prob for result in scores}
        for pair in pairs:
            hit = log_prob[pair.good] > log_prob[pair.bad]
            for name in {pair.paradigm, ALL}:
                hits.setdefault((name, method.method), []).append(hit)
    names = [*paradigms, ALL] if len(paradigms) > 1 else paradigms
    return [_accuracy(name, method.method, hits[name, method.method]) for name in names for method in methods]


def _accuracy(paradigm: str, method: str, hits: Sequence[bool]) -> Accuracy:
    low, high = wilson(sum(hits), len(hits))
    return Accuracy(paradigm, method, len(hits), sum(hits) / len(hits), low, high)
