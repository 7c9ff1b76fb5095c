"""GLUE's metrics against hand-worked cases and scikit-learn; its average against the paper's own Table 5."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn

from anyorder.metrics.glue import METRICS, accuracy, f1, glue_average, matthews, pearson, spearman


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_by_hand() -> None:
    predicted, gold = array(1, 1, 1, 0, 0, 0), array(1, 1, 0, 1, 0, 0)  # tp 2, fp 1, fn 1, tn 2
    assert accuracy(predicted, gold) == pytest.approx(4 / 6)
    assert f1(predicted, gold) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert matthews(predicted, gold) == pytest.approx((2 * 2 - 1 * 1) / np.sqrt(3 * 3 * 3 * 3))
    assert pearson(array(1, 2, 3), array(1, 2, 4)) == pytest.approx(3 / np.sqrt(2 * 14 / 3))
    assert spearman(array(1, 2, 30), array(10, 200, 201)) == pytest.approx(1)
    assert spearman(array(1, 2, 3), array(3, 2, 1)) == pytest.approx(-1)
    assert spearman(array(1, 1, 2), array(1, 2, 3)) == pytest.approx(np.sqrt(3) / 2)  # ranks 1.5 1.5 3


@pytest.mark.parametrize("name", ["matthews", "pearson", "spearman"])
def test_a_constant_says_nothing(name: str) -> None:
    assert METRICS[name](array(1, 1, 1), array(0, 1, 1)) == 0
    assert METRICS[name](array(0.1, 0.1, 0.1), array(0.3, 1.7, 1)) == 0


def test_f1_of_a_class_that_occurs_nowhere() -> None:
    assert f1(array(0, 0), array(0, 0)) == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_classes_equal_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    predicted, gold = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
    assert accuracy(predicted, gold) == pytest.approx(sklearn.accuracy_score(gold, predicted))
    assert f1(predicted, gold) == pytest.approx(sklearn.f1_score(gold, predicted, zero_division=0))
    assert matthews(predicted, gold) == pytest.approx(sklearn.matthews_corrcoef(gold, predicted), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=30))
def test_correlations_equal_scipy(pairs: list[tuple[int, int]]) -> None:
    from scipy import stats

    a, b = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
    if np.ptp(a) and np.ptp(b):
        assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-12)
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("row", "average"),
    [
        ([52.1, 93.5, (88.9, 84.8), (87.1, 85.8), (71.2, 89.2), (84.6, 83.4), 90.5, 66.4], 78.3),
        ([56.5, 94.3, (88.8, 84.4), (87.0, 85.9), (71.4, 89.2), (84.5, 83.5), 91.8, 66.1], 79.0),
        ([56.9, 94.2, (90.7, 87.7), (89.7, 89.1), (72.2, 89.4), (86.1, 85.4), 92.1, 78.5], 81.3),
    ],
    ids=["BERT(A)", "u-PMLM-A", "u-PMLM-R*"],
)
def test_the_average_is_that_of_the_papers_table(row: list, average: float) -> None:
    """Liao et al., Table 5; its average counts WNLI too, which it does not show: the majority's 65.1."""
    names = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte"]
    scores = {n: list(v) if isinstance(v, tuple) else [v] for n, v in zip(names, row, strict=True)}
    (matched, mismatched), scores["mnli"] = scores["mnli"], []
    scores |= {"mnli": [matched], "mnli-mm": [mismatched], "wnli": [65.1]}
    assert glue_average(scores) == pytest.approx(average, abs=0.05)
