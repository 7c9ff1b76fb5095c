"""Text metrics against counts by hand."""

from __future__ import annotations

import math

import pytest

from anyorder.metrics.text import (
    adjacent_repeats,
    distinct_n,
    repetition_n,
    unigram_entropy,
)

ROWS = [["the", "the", "cat"], ["a", "a", "a", "b"]]


def test_stutter_counts_equal_neighbours():
    # the=the, the/cat | a=a, a=a, a/b: three of five
    assert adjacent_repeats(ROWS) == pytest.approx(3 / 5)
    assert adjacent_repeats(["a"]) == adjacent_repeats([]) == 0.0


def test_distinct_and_repetition():
    # bigrams: (the the)(the cat) | (a a)(a a)(a b): four distinct of five
    assert distinct_n(ROWS, 2) == pytest.approx(4 / 5)
    assert distinct_n(ROWS, 1) == pytest.approx(4 / 7)
    # within texts: 0 of 2 repeat, 1 of 3 repeats
    assert repetition_n(ROWS, 2) == pytest.approx((0 + 1 / 3) / 2)
    assert repetition_n(ROWS, 5) == 0.0
    assert distinct_n([], 2) == 0.0


def test_entropy_of_token_frequencies():
    by_hand = (
        -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3),
        -(3 / 4) * math.log(3 / 4) - (1 / 4) * math.log(1 / 4),
    )
    assert unigram_entropy(ROWS) == pytest.approx(sum(by_hand) / 2)
    assert unigram_entropy(["aaaa"]) == 0.0
    assert unigram_entropy(["abcd"]) == pytest.approx(math.log(4))
