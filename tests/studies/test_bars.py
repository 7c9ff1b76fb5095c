"""The bars: a model that falls short is told so, with the figure and the bar."""

import json
import lzma

import pytest

from anyorder.errors import AnyorderError
from anyorder.studies.bars import Bar, measure

TEXTS = ["the old man opened the door .", "the cat sat on the mat .", "a bird .", "the king and the queen ."]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    (tmp_path / "blimp").mkdir()
    row = {"sentence_good": "the cat sat .", "sentence_bad": "the cat sats .", "UID": "one"}
    (tmp_path / "blimp" / "one.jsonl.xz").write_bytes(lzma.compress((json.dumps(row) + "\n").encode()))
    return tmp_path


def test_a_bar_is_passed_or_missed(tiny_lm, folder):
    low, high = Bar("hopeless", "texts.txt", None, 1e-6), Bar("easy", "texts.txt", None, 1e6)
    found = measure(tiny_lm, folder, [low, high])
    missed = [line for line in found.short if "nats per character" in line]
    assert len(missed) == 1
    assert missed[0].startswith("hopeless:")
    assert f"{found.rows[0].nats_per_character:.3f}" in found.table()
    assert ("minimal pairs" in " ".join(found.short)) == (found.pairs[-1].accuracy < 0.7)


def test_missing_pairs_are_one_sentence(tiny_lm, folder):
    (folder / "blimp" / "one.jsonl.xz").unlink()
    with pytest.raises(AnyorderError, match="no minimal pairs at"):
        measure(tiny_lm, folder, [Bar("easy", "texts.txt", None, 1e6)])
