from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.errors import AnyorderError
from anyorder.text.template import Blank, allowed, check_length, layout, parse
from anyorder.text.vocabulary import vocabulary

KINDS = ["wordpiece", "byte_level", "sentencepiece", "word"]


def test_every_way_to_write_a_blank():
    template = parse("A ___ b ______ c [MASK] d ___{3} e ___{1-4} f ___{ 2 – 2 }", "[MASK]", 64)
    assert template.blanks == (Blank(), Blank(), Blank(), Blank(3, 3), Blank(1, 4), Blank(2, 2))
    assert template.texts == ("A ", " b ", " c ", " d ", " e ", " f ", "")
    assert template.combinations == 4
    assert [n[4] for n in template.lengths()] == [1, 2, 3, 4]


def test_two_underscores_are_text():
    assert parse("a __ b", "[MASK]", 64).blanks == ()


@given(st.lists(st.text("ab_ {}-[]3\n", max_size=8), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_parsing_loses_nothing_of_the_text(parts):
    text = " ___ ".join(parts)
    try:
        template = parse(text, "[MASK]", 10_000)
    except AnyorderError:
        return  # such as ___{}: refused, not misread
    rest = text
    for piece in template.texts:
        assert piece in rest
        rest = rest[rest.index(piece) + len(piece) :]
    assert len(template.texts) == len(template.blanks) + 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("___{4-1}", "{1-4}"),
        ("___{0}", "start at 1"),
        ("___{}", "___{3}"),
        ("___{many}", "___{3}"),
        ("___{65}", "more blanks"),
        ("___{99999999999999999999}", "___{3}"),
        ("___ " * 65, "more blanks"),
        ("___{1-9} " * 3, "combinations"),
    ],
)
def test_impossible_blanks_are_one_line_that_says_so(text, says):
    with pytest.raises(AnyorderError) as caught:
        parse(text, "[MASK]", 64)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_the_tokenizer_and_text_comes_back_verbatim(tokenizers, kind):
    tokenizer = tokenizers[kind]
    words = vocabulary(tokenizer, len(tokenizer))
    texts = ("the  quick ", " fox ", " the lazy dog .")
    where = layout(texts, (1, 2), words, 64)
    mask = tokenizer.mask_token
    assert where.tokens.tolist() == tokenizer(f"the  quick {mask} fox {mask}{mask} the lazy dog .")["input_ids"]
    assert [len(run) for run in where.slots] == [1, 2]
    assert where.free.sum() == 3
    assert bool((where.tokens[where.free] == tokenizer.mask_token_id).all())

    answer = tokenizer("the quick brown fox is over" if kind != "word" else "the quick brown fox over a")["input_ids"]
    brown, one, two = answer[-5], answer[-3], answer[-2]  # whatever pieces these are, the text around them stays
    filled = where.tokens.clone()
    filled[where.free] = filled.new_tensor([brown, one, two])
    text, fills = where.render(filled, words)
    assert text.startswith("the  quick")
    assert text.endswith(" the lazy dog .")
    assert " fox" in text
    assert len(fills) == 2


def test_render_keeps_the_users_own_spelling(tokenizers):
    tokenizer = tokenizers["wordpiece"]  # lower-cases; the user's capitals and spaces must survive
    words = vocabulary(tokenizer, len(tokenizer))
    where = layout(("The  QUICK ", "\tFox (", ")!"), (1, 1), words, 64)
    filled = where.tokens.clone()
    filled[where.free] = filled.new_tensor(tokenizer.convert_tokens_to_ids(["brown", "dog"]))
    assert where.render(filled, words) == ("The  QUICK brown\tFox (dog)!", ("brown", "dog"))


def test_a_blank_that_stands_as_a_word_takes_words(tokenizers):
    tokenizer = tokenizers["wordpiece"]
    words = vocabulary(tokenizer, len(tokenizer))
    ids = tokenizer.convert_tokens_to_ids
    where = layout(("the ", " jump", " ", "."), (2, 1, 1), words, 64)
    rules = allowed(where, words)
    (first, second), (glued,), (third,) = where.slots
    assert rules[first, ids("fox")]
    assert not rules[first, ids("##s")]
    assert not rules[first, ids("[SEP]")]
    assert rules[second, ids("##s")]
    assert rules[second, ids("fox")]
    assert rules[glued, ids("##ing")]
    assert not rules[glued, ids("fox")]
    assert rules[third, ids("dog")]
    assert not rules[third, ids("##s")]
    free_choice = allowed(where, words, whole_words=False, special_tokens=True)
    assert bool(free_choice.all())
    # Positions that are given are not restricted.
    assert bool(rules[~where.free].all())


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
def test_marked_vocabularies_take_marked_words_after_a_space(tokenizers, kind):
    tokenizer = tokenizers[kind]
    words = vocabulary(tokenizer, len(tokenizer))
    where = layout(("The ", " fox"), (1,), words, 64)
    rules = allowed(where, words)[where.slots[0][0]]
    assert bool((words.starts | ~rules).all())
    assert bool(rules.any())


def test_a_mask_that_keeps_its_space_takes_unmarked_pieces(tokenizers):
    # If the tokenizer spells the space before the mask as a token of its own, a second mark would double it.
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer.from_str(tokenizers["byte_level"].backend_tokenizer.to_str())
    plain = PreTrainedTokenizerFast(tokenizer_object=core, mask_token="[X]", unk_token="<unk>", pad_token="<pad>")
    words = vocabulary(plain, len(plain))
    where = layout(("The ", " fox"), (1,), words, 64)
    before = plain.convert_ids_to_tokens(int(where.tokens[where.slots[0][0] - 1]))
    assert before == "Ġ"
    rules = allowed(where, words)[where.slots[0][0]]
    assert not bool((rules & words.starts).any())


def test_words_the_tokenizer_cannot_represent_are_named(tokenizers):
    tokenizer = tokenizers["wordpiece"]
    words = vocabulary(tokenizer, len(tokenizer))
    with pytest.raises(AnyorderError, match="'zebra'"):
        layout(("the zebra ", ""), (1,), words, 64)
    assert len(layout(("the zebra ", ""), (1,), words, 64, allow_unknown=True).slots) == 1


def test_too_long_is_said_before_and_after_tokenising(tokenizers, monkeypatch):
    tokenizer = tokenizers["wordpiece"]
    words = vocabulary(tokenizer, len(tokenizer))
    with pytest.raises(AnyorderError, match="holds 16"):
        layout(("the fox " * 20, ""), (1,), words, 16)
    monkeypatch.setattr(type(tokenizer), "__call__", lambda *_, **__: pytest.fail("tokenised"))
    with pytest.raises(AnyorderError, match="1,000,000 characters"):
        check_length("a" * 1_000_000, words, 512)
