from __future__ import annotations

import pytest

from anyorder.text.vocabulary import Vocabulary, glues, vocabulary

STYLES = {
    "wordpiece": "wordpiece",
    "byte_level": "byte",
    "sentencepiece": "sentencepiece",
    "character": "character",
    "word": "word",
}


def words_of(tokenizers: dict, kind: str) -> Vocabulary:
    return vocabulary(tokenizers[kind], len(tokenizers[kind]))


@pytest.mark.parametrize("kind", STYLES)
def test_style_is_read_off_the_tokenizer(tokenizers, kind):
    assert words_of(tokenizers, kind).style == STYLES[kind]


@pytest.mark.parametrize("kind", STYLES)
def test_special_tokens_and_placeholders_are_never_text(tokenizers, kind):
    tokenizer = tokenizers[kind]
    words = vocabulary(tokenizer, len(tokenizer) + 3)  # models pad their vocabulary
    assert all(words.special[i] for i in tokenizer.all_special_ids)
    assert bool(words.special[-3:].all())
    if kind == "wordpiece":
        assert words.special[tokenizer.convert_tokens_to_ids("[unused0]")]
    assert not words.special[
        tokenizer(("K" if kind == "character" else "fox"), add_special_tokens=False)["input_ids"][-1]
    ]


@pytest.mark.parametrize("kind", ["wordpiece", "byte_level", "sentencepiece"])
def test_a_word_splits_into_a_start_and_continuations(tokenizers, kind):
    words = words_of(tokenizers, kind)
    ids = tokenizers[kind]("the jumping fox", add_special_tokens=False)["input_ids"]
    # However the tokenizer cut them, three words have three starts (the first may go unmarked, as in RoBERTa).
    starts = int(words.starts[ids].sum())
    assert starts == (3 if kind == "wordpiece" or words.start_marked else 2)


@pytest.mark.parametrize("kind", ["wordpiece", "byte_level", "sentencepiece"])
@pytest.mark.parametrize("left", ["the quick", "the lazy dog a", ""])
def test_joining_a_tokenised_text_gives_the_text_back(tokenizers, kind, left):
    words = words_of(tokenizers, kind)
    text = f"{left} brown fox".strip()
    ids = tokenizers[kind](text, add_special_tokens=False)["input_ids"]
    cut = len(tokenizers[kind](left, add_special_tokens=False)["input_ids"])
    assert words.join(left, ids[cut:]) == text


def test_wordpieces_join_as_they_say(tokenizers):
    words = words_of(tokenizers, "wordpiece")
    ids = tokenizers["wordpiece"].convert_tokens_to_ids
    assert words.join("The jump", [ids("##ing")]) == "The jumping"
    assert words.join("The jump ", [ids("##ing")]) == "The jumping"  # the piece continues: the space goes
    assert words.join("The ", [ids("fox"), ids("##s")]) == "The foxs"
    assert words.join("The", [ids("fox")]) == "The fox"  # a new word: the space comes
    assert words.join("(", [ids("fox")]) == "(fox"
    assert words.join("Keep  my\n", [ids("fox")]) == "Keep  my\nfox"
    assert words.join("as is", []) == "as is"


def test_characters_are_written_together(tokenizers):
    words = words_of(tokenizers, "character")
    ids = tokenizers["character"].convert_tokens_to_ids(["A", "C"])
    assert words.join("EV", ids) == "EVAC"
    assert bool(words.fits[words.kind("EV")].all())


def test_what_fits_after_what(tokenizers):
    words = words_of(tokenizers, "wordpiece")
    ids = tokenizers["wordpiece"].convert_tokens_to_ids
    assert words.fits[words.kind("The ")][ids("fox")]
    assert not words.fits[words.kind("The ")][ids("##s")]
    assert words.fits[words.kind("fox")][ids("##s")]
    assert not words.fits[words.kind("fox")][ids("fox")]
    assert words.fits[words.kind("(")][ids("fox")]
    for kind in ("byte_level", "sentencepiece"):
        words = words_of(tokenizers, kind)
        tokenizer = tokenizers[kind]
        inside = tokenizer(" fox", add_special_tokens=False)["input_ids"][0]
        assert words.fits[words.kind("The ")][inside]
        assert not words.fits[words.kind("The")][inside]
        first = tokenizer("the", add_special_tokens=False)["input_ids"][0]
        assert words.fits[words.kind("")][first]


def test_scripts_without_spaces_do_not_glue():
    assert glues("fox")
    assert glues("7")
    assert not glues("fox ")
    assert not glues("(")
    assert not glues("")
    assert not glues("狐")
