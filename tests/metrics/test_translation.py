"""BLEU and chrF are sacrebleu's, and intervals are those of resampled texts."""

import math

import numpy as np
import pytest
import sacrebleu

from anyorder.errors import AnyorderError
from anyorder.metrics.bootstrap import middle
from anyorder.metrics.translation import bootstrap, scored

# The example of sacrebleu's own README.
TEXTS = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
REFERENCES = [
    ["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
    ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
]


def test_bleu_is_the_one_sacrebleu_publishes():
    assert scored("BLEU", TEXTS, REFERENCES).of() == pytest.approx(48.530827, abs=1e-4)


@pytest.mark.parametrize(("name", "whole"), [("BLEU", sacrebleu.corpus_bleu), ("chrF", sacrebleu.corpus_chrf)])
def test_sums_of_counts_are_corpus_scores(name, whole):
    found = scored(name, TEXTS, REFERENCES)
    assert found.of() == pytest.approx(whole(TEXTS, REFERENCES).score)
    rows = np.array([2, 0, 2])
    chosen = [[each[i] for i in rows] for each in (TEXTS, *REFERENCES)]
    assert found.of(rows) == pytest.approx(whole(chosen[0], chosen[1:]).score)
    assert "nrefs:2" in found.signature


def test_brevity_by_hand():
    """Every word right, one of four missing: all precisions 1, the penalty exp(1 - 6/5)."""
    found = scored("BLEU", ["the cat sat on mat"], [["the cat sat on mat now"]])
    assert found.of() == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_pairs_are_resampled_together():
    better = scored("BLEU", REFERENCES[0], REFERENCES[:1])
    worse = scored("BLEU", TEXTS, REFERENCES[:1])
    one, two, again = bootstrap([better, worse, better], 50, seed=3)
    assert (one == again).all()
    assert (one == 100).all() or one.min() > 99.9
    found = middle(better.of() - worse.of(), one - two)
    assert found.low <= found.value <= found.high
    assert math.isnan(middle(1.0, np.array([])).low)


def test_references_of_another_number_are_refused():
    with pytest.raises(AnyorderError, match="give one for each"):
        scored("BLEU", TEXTS, [["a"]])
