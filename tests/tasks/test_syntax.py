"""Syntactic distance: ten sentences parsed by hand, and pieces aligned to their words."""

from __future__ import annotations

import sys

import pytest

from anyorder.errors import AnyorderError
from anyorder.tasks.syntax import load_parser, syntactic, tree_distance, word_at

pytest.importorskip("spacy", reason="the extra syntax is not installed")

from spacy.tokens import Doc
from spacy.vocab import Vocab

# Words, the number of each one's head (its own at a root), and (word, word, arcs between them).
PARSED = [
    ("the cat sat", [1, 2, 2], [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 2, 1)]),
    ("she opened the door", [1, 1, 3, 1], [(0, 3, 2), (0, 2, 3), (1, 2, 2)]),
    ("the old man walked slowly", [2, 2, 3, 3, 3], [(0, 1, 2), (1, 4, 3), (2, 4, 2)]),
    ("birds in the big tree sing", [5, 4, 4, 4, 0, 5], [(0, 5, 1), (3, 5, 3), (1, 2, 2), (3, 0, 2)]),
    ("the king gave the queen a book", [1, 2, 2, 4, 2, 6, 2], [(1, 6, 2), (0, 5, 4), (4, 6, 2)]),
    ("he said that she left", [1, 1, 4, 4, 1], [(0, 3, 3), (2, 3, 2), (1, 3, 2)]),
    ("dogs and cats run", [3, 2, 0, 3], [(0, 2, 1), (1, 3, 3), (1, 0, 2)]),
    ("the dog that barked slept", [1, 4, 3, 1, 4], [(2, 4, 3), (0, 2, 3), (3, 4, 2)]),
    ("stop", [0], [(0, 0, 0)]),
    # two sentences: their roots are one arc below a root above both
    ("he came she left", [1, 1, 3, 3], [(1, 3, 2), (0, 2, 4), (0, 1, 1)]),
]


def parsed(words: str, heads: list[int]) -> Doc:
    return Doc(Vocab(), words.split(), heads=heads, deps=["dep"] * len(heads))


@pytest.mark.parametrize(("words", "heads", "pairs"), PARSED, ids=[words for words, *_ in PARSED])
def test_arcs_between_words(words, heads, pairs):
    doc = parsed(words, heads)
    for a, b, arcs in pairs:
        assert tree_distance(doc[a], doc[b]) == tree_distance(doc[b], doc[a]) == arcs


def test_a_character_belongs_to_its_word_or_the_one_before_a_space():
    doc = parsed("the cat sat", [1, 2, 2])
    assert [word_at(doc, i).text for i in (0, 2, 3, 4, 10)] == ["the", "the", "the", "cat", "sat"]


def test_pieces_of_a_word_are_at_no_distance(tiny_lm):
    text = "the cats sat"
    ids = tiny_lm.tokenizer(text)["input_ids"]
    pieces = tiny_lm.tokenizer.convert_ids_to_tokens(ids)
    assert len(pieces) > 5, "a word of several pieces is needed here"
    word = [i for i, piece in enumerate(pieces) if piece.startswith("##")]
    records = [
        {"line": 2, "positions": [word[0] - 1, word[0]], "distance": 0, "kept": 1},
        {"line": 2, "positions": [1, word[0]], "distance": 1},
        {"line": 2, "positions": [1, len(ids) - 2], "distance": 9},
    ]
    found = syntactic(records, ["", f" {text} "], tiny_lm.tokenizer, lambda given: parsed(given, [1, 2, 2]))
    assert [one["distance"] for one in found] == [0, 1, 2]
    assert found[0]["kept"] == 1
    assert records[2]["distance"] == 9


def test_a_parser_that_is_not_there_is_one_sentence(monkeypatch):
    with pytest.raises(AnyorderError, match="python -m spacy download no_such_pipeline"):
        load_parser("no_such_pipeline")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(AnyorderError, match=r"anyorder\[syntax\]"):
        load_parser("any")


def test_a_pipeline_that_does_not_parse_is_refused(tmp_path):
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(AnyorderError, match="does not parse"):
        load_parser(str(tmp_path / "blank"))
