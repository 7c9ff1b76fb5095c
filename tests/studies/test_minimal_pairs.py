"""Minimal pairs: what counts as a success, and files in BLiMP's format."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from anyorder.errors import AnyorderError
from anyorder.studies.minimal_pairs import MinimalPair, accuracies, compare, read_pairs
from anyorder.tasks.options import ScoreOptions
from anyorder.tasks.score import score

SENTENCES = [
    "the cat sat",
    "the cats sat on the mat",
    "a dog ran",
    "the king saw the queen",
    "two birds were in a tree",
]
METHODS = [ScoreOptions("pll"), ScoreOptions("chain"), ScoreOptions("bound", samples=8)]


def test_accuracy_is_the_share_of_strictly_higher_scores(tiny_lm: Any) -> None:
    pairs = [MinimalPair(a, b, "x" if i % 2 else "y") for i, a in enumerate(SENTENCES) for b in SENTENCES]
    rows = accuracies(tiny_lm, pairs, METHODS)
    assert [(r.paradigm, r.method) for r in rows] == [
        (p, m) for p in ("y", "x", "all") for m in ("pll", "chain", "bound")
    ]
    for method in METHODS:
        log_prob = {text: score(tiny_lm, [text], method, common=True)[0].log_prob for text in SENTENCES}
        for row in rows:
            if row.method == method.method:
                mine = [p for p in pairs if row.paradigm in (p.paradigm, "all")]
                assert row.pairs == len(mine)
                assert row.accuracy == sum(log_prob[p.good] > log_prob[p.bad] for p in mine) / len(mine)
                assert row.low < row.accuracy < row.high
    # A sentence against itself is a tie, and no success.
    assert accuracies(tiny_lm, [MinimalPair("a dog", "a dog", "z")], METHODS[:1])[0].accuracy == 0


def test_a_paradigm_called_all_is_counted_once_in_the_sum(tiny_lm: Any) -> None:
    pairs = [MinimalPair("a dog ran", "a dog", name) for name in ("all", "other")]
    assert accuracies(tiny_lm, pairs, METHODS[:1])[-1].pairs == 2


def test_preferences_are_antisymmetric_and_ties_undecided(tiny_lm: Any) -> None:
    for one, other in zip(
        compare(tiny_lm, *SENTENCES[:2], METHODS), compare(tiny_lm, *SENTENCES[1::-1], METHODS), strict=True
    ):
        assert one.difference == pytest.approx(-other.difference)
        assert {one.prefers, other.prefers} in ({"a", "b"}, {"undecided"})
    assert {row.prefers for row in compare(tiny_lm, "a dog", "a dog", METHODS)} == {"undecided"}


def test_files_in_blimps_format(tmp_path: Path) -> None:
    rows = [{"sentence_good": f"good {i}", "sentence_bad": f"bad {i}", "UID": "agreement"} for i in range(5)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "named.jsonl.xz").write_bytes(lzma.compress(text.encode()))
    assert read_pairs(str(tmp_path / "named.jsonl.xz"), limit=2) == [
        MinimalPair("good 0", "bad 0", "agreement"),
        MinimalPair("good 1", "bad 1", "agreement"),
    ]
    (tmp_path / "island.jsonl").write_text('{"sentence_good": "a", "sentence_bad": "b"}\n\n')
    assert read_pairs(str(tmp_path / "island.jsonl")) == [MinimalPair("a", "b", "island")]
    (tmp_path / "bad.jsonl").write_text('{"sentence_good": "a"}\n')
    with pytest.raises(AnyorderError, match=r"line 1 of .* has no 'sentence_bad', only sentence_good"):
        read_pairs(str(tmp_path / "bad.jsonl"))
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(AnyorderError, match="holds no pairs"):
        read_pairs(str(tmp_path / "empty.jsonl"))


def test_common_masks_sharpen_the_difference_of_a_pair(tiny_lm: Any) -> None:
    pair = ["the old man opened the door to the garden", "the old man opened the book to the garden"]

    def spread(common: bool) -> float:
        differences = []
        for seed in range(60):
            a, b = score(tiny_lm, pair, ScoreOptions("bound", samples=8, seed=seed), common=common)
            differences.append(a.log_prob - b.log_prob)
        mean = sum(differences) / 60
        return sum((d - mean) ** 2 for d in differences) / 59

    assert spread(True) < spread(False)
