"""SQuAD 2.0's exact match, F1 and no-answer threshold on written cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from anyorder.metrics.squad import best_threshold, exact, judge, normalise, token_f1


@pytest.mark.parametrize(
    ("answer", "normalised"),
    [
        ("The  Cat", "cat"),
        ("an apple a day", "apple day"),
        ("U.S.A.", "usa"),
        ("don't", "dont"),
        ("a theatre", "theatre"),  # "the" only as a word
        ("the", ""),
        ("  Notre-Dame ", "notredame"),
        ("Zürich (city)", "zürich city"),
    ],
)
def test_normalisation(answer: str, normalised: str) -> None:
    assert normalise(answer) == normalised


@pytest.mark.parametrize(
    ("predicted", "golds", "em", "f1"),
    [
        ("the cat", ["cat"], 1, 1),
        ("Cat.", ["the cat", "dog"], 1, 1),
        ("black cat", ["cat"], 0, 2 / 3),
        ("cat cat", ["cat"], 0, 2 / 3),  # as bags: one of two is common
        ("cat cat", ["cat cat dog"], 0, 4 / 5),
        ("dog", ["cat"], 0, 0),
        ("in 1492", ["1492", "the year 1492"], 0, 2 / 3),  # the best of several
        ("", [], 1, 1),  # no answer, and none was right
        ("cat", [], 0, 0),  # an answer where there is none
        ("", ["cat"], 0, 0),  # none where there is one
        ("the", [], 1, 1),  # nothing is left of it: as good as none
        ("the", ["the", "cat"], 0, 0),  # right answers of which nothing is left do not count
        ("", ["the"], 1, 1),  # as in the official script, where only such are left
    ],
)
def test_judging(predicted: str, golds: list[str], em: float, f1: float) -> None:
    assert judge(predicted, golds) == (em, pytest.approx(f1))


def test_f1_is_symmetric_and_exact_implies_it() -> None:
    for a, b in itertools.product(["the cat", "cat sat", "sat", "", "a"], repeat=2):
        assert token_f1(a, b) == token_f1(b, a)
        assert not exact(a, b) or token_f1(a, b) == 1


def score_at(threshold: float, margins: np.ndarray, given: np.ndarray, none: np.ndarray) -> float:
    return float(np.where(margins <= threshold, given, none).mean())


@pytest.mark.parametrize("seed", range(8))
def test_no_threshold_beats_the_best_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    margins = rng.integers(-4, 5, size=12).astype(float)  # with ties
    given, none = rng.random(12), rng.integers(0, 2, size=12).astype(float)
    best = score_at(best_threshold(margins, given, none), margins, given, none)
    tried = [score_at(t, margins, given, none) for t in (-np.inf, *np.arange(-5, 6, 0.5), np.inf)]
    assert best == pytest.approx(max(tried))


def test_threshold_at_the_ends() -> None:
    margins = np.array([1.0, 2.0])
    assert best_threshold(margins, np.ones(2), np.zeros(2)) == np.inf
    assert best_threshold(margins, np.zeros(2), np.ones(2)) == -np.inf
    assert best_threshold(margins, np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.5
