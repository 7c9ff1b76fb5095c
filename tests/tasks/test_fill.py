"""Filling blanks: against transformers' fill-mask, brute force on exact worlds, and the joints of two blanks."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import FillMaskPipeline, PreTrainedTokenizerFast

from anyorder.conditionals import hidden_markov
from anyorder.errors import AnyorderError
from anyorder.tasks.fill import Completion, fill
from anyorder.tasks.lengths import length_posterior
from anyorder.tasks.options import FillOptions
from anyorder.text.template import layout, parse
from anyorder.text.vocabulary import vocabulary


@pytest.fixture(scope="module")
def pipeline(tiny_lm: Any) -> FillMaskPipeline:
    return FillMaskPipeline(model=tiny_lm.model, tokenizer=tiny_lm.tokenizer)


@pytest.mark.parametrize(
    "text", ["The ___ sat on the mat.", "___ fox ran", "he opened the ___", "the dog is , ___! the cat"]
)
def test_one_blank_is_exactly_fill_mask(tiny_lm, pipeline, text):
    theirs = pipeline(text.replace("___", "[MASK]"), top_k=20)
    ours = tiny_lm.fill(text, top=20, whole_words=False, special_tokens=True)
    mask = tiny_lm.tokenizer(text.replace("___", "[MASK]"))["input_ids"].index(tiny_lm.tokenizer.mask_token_id)
    assert [c.tokens[mask] for c in ours] == [answer["token"] for answer in theirs]
    for c, answer in zip(ours, theirs, strict=True):
        assert math.exp(c.log_prob) == pytest.approx(answer["score"], abs=1e-5)


def test_by_default_it_is_fill_mask_over_words_only(tiny_lm, pipeline):
    everything = pipeline("The [MASK] sat.", top_k=tiny_lm.conditionals.vocab_size)
    pieces = tiny_lm.tokenizer.convert_ids_to_tokens([a["token"] for a in everything])
    words = [a for a, p in zip(everything, pieces, strict=True) if not p.startswith(("##", "["))]
    ours = tiny_lm.fill("The ___ sat.", top=10)
    assert [c.tokens[2] for c in ours] == [a["token"] for a in words[:10]]
    for c, a in zip(ours, words, strict=False):
        assert math.exp(c.log_prob) == pytest.approx(a["score"], abs=1e-5)  # not normalised over the words
        assert c.text == f"The {c.fills[0]} sat."


def test_two_blanks_are_scored_by_the_chain_rule(tiny_lm):
    first = tiny_lm.fill("The ___ sat on the ___.", top=8, beam=64, order="left-to-right")
    assert [c.log_prob for c in first] == sorted((c.log_prob for c in first), reverse=True)
    for c in first:
        row = torch.tensor([c.tokens])
        a, b = 2, 6
        blank = row.clone()
        blank[0, [a, b]] = tiny_lm.conditionals.mask_id
        one = tiny_lm.conditionals(blank, torch.tensor([[a]]))[0, 0, c.tokens[a]]
        blank[0, a] = c.tokens[a]
        two = tiny_lm.conditionals(blank, torch.tensor([[b]]))[0, 0, c.tokens[b]]
        assert c.log_prob == pytest.approx(float(one + two), abs=1e-5)
        assert c.text == f"The {c.fills[0]} sat on the {c.fills[1]}."


def test_given_order_counts_the_blanks_from_one(tiny_lm):
    by_name = tiny_lm.fill("The ___ sat on the ___{2}.", order="right-to-left")
    by_number = tiny_lm.fill("The ___ sat on the ___{2}.", order="given:3,2,1")
    assert [c.to_dict() for c in by_name] == [c.to_dict() for c in by_number]


def test_sampling_is_seeded_and_reports_the_models_own_log_prob(tiny_lm):
    text = "The ___ sat on the ___."
    once, again = (tiny_lm.fill(text, method="sample", samples=32, seed=3, order="left-to-right") for _ in range(2))
    other = tiny_lm.fill(text, method="sample", samples=32, seed=4, order="left-to-right")
    assert once == again
    assert once != other
    exact = {c.text: c.log_prob for c in tiny_lm.fill(text, top=4000, beam=4000, order="left-to-right")}
    for c in once:
        assert c.log_prob == pytest.approx(exact[c.text], abs=1e-4)


def test_the_joint_method_ranks_by_arnold_gokhale(tiny_lm):
    from anyorder.joints import arnold_gokhale, pair_tables

    found = tiny_lm.fill("The ___ sat on the ___.", method="joint", top=6, whole_words=False, special_tokens=True)
    tokens = torch.tensor(found[0].tokens)
    tables = pair_tables(tiny_lm.conditionals, tokens, 2, 6)
    joint = arnold_gokhale(tables.log_a_given_b, tables.log_b_given_a)
    for c, (a, b, p) in zip(found, joint.top(6), strict=True):
        assert (c.tokens[2], c.tokens[6]) == (a, b)
        assert math.exp(c.log_prob) == pytest.approx(p, rel=1e-4)
    words = tiny_lm.fill("The ___ sat on the ___.", method="joint", top=50)
    assert all(not fill.startswith("[") for c in words for fill in c.fills)
    assert len({c.text for c in words}) == len(words)


def test_the_joint_from_few_rows_is_near_the_one_from_all(tiny_lm):
    text = "The ___ sat on the ___."
    exact = {c.text: math.exp(c.log_prob) for c in tiny_lm.fill(text, method="joint", top=2000)}
    for c in tiny_lm.fill(text, method="joint", top=5, tail=0.01):
        assert math.exp(c.log_prob) == pytest.approx(exact[c.text], abs=0.02)


# --- lengths ---------------------------------------------------------------------------------------------------


class World:
    """Exact conditionals at every length: one hidden Markov chain, a table for each number of tokens."""

    mask_id, pad_id, vocab_size = 3, None, 5

    def __init__(self, noise: float) -> None:
        cycle = torch.eye(3).roll(1, 1)  # a -> b -> c -> a
        self.parts = (torch.ones(3) / 3, (1 - noise) * cycle + noise / 3, 0.94 * torch.eye(3) + 0.02)
        self.tables: dict[int, Any] = {}

    def table(self, length: int) -> Any:
        if length not in self.tables:
            self.tables[length] = hidden_markov(*self.parts, length)
        return self.tables[length]

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        log_q = self.table(tokens.shape[1])(tokens, positions)
        return torch.nn.functional.pad(log_q, (0, 2), value=-torch.inf)  # <mask> and <unk>


def world_lm(noise: float = 0.1) -> Any:
    core = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2, "<mask>": 3, "<unk>": 4}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, mask_token="<mask>", unk_token="<unk>")
    return SimpleNamespace(tokenizer=tokenizer, conditionals=World(noise), max_length=9)


def truth(lm: Any, text: str, lengths: range) -> dict[tuple[str, ...], float]:
    """p(length, fill | text) by enumeration, every length equally likely beforehand."""
    left, right = text.split("?")
    joint = {}
    for n in lengths:
        for fill_ in itertools.product("abc", repeat=n):
            ids = torch.tensor([["abc".index(w) for w in [*left.split(), *fill_, *right.split()]]])
            joint[fill_] = float(lm.conditionals.table(ids.shape[1]).log_prob(ids).exp())
    total = sum(joint.values())
    return {k: v / total for k, v in joint.items()}


@pytest.mark.parametrize("text", ["a b ? a b", "a ? c a", "b c ?"])
def test_the_posterior_of_the_length_is_bayes_rule(text):
    lm = world_lm()
    exact = truth(lm, text, range(1, 4))
    words = vocabulary(lm.tokenizer, 5)
    template = parse(text.replace("?", "___{1-3}"), "<mask>", 9)
    layouts = [layout(template.texts, n, words, 9) for n in template.lengths()]
    by_length = length_posterior(lm.conditionals, layouts, template, words).exp()
    for n in (1, 2, 3):
        assert float(by_length[n - 1]) == pytest.approx(sum(p for f, p in exact.items() if len(f) == n), abs=1e-9)


def test_completions_of_all_lengths_are_ranked_as_one_distribution():
    lm = world_lm()
    exact = truth(lm, "a b ? a b", range(1, 4))
    found = fill(lm, "a b ___{1-3} a b", FillOptions(top=100, beam=100))
    assert len(found) == len(exact) == 3 + 9 + 27
    for c in found:
        assert math.exp(c.log_prob) == pytest.approx(exact[tuple(c.fills[0].split())], abs=1e-9)
    assert sum(math.exp(c.log_prob) for c in found) == pytest.approx(1.0)
    assert [c.log_prob for c in found] == sorted((c.log_prob for c in found), reverse=True)


@pytest.mark.parametrize(
    ("text", "answer"), [("b ? b", "c a"), ("a b ? b c", "c a"), ("c a ? b c", "b c a"), ("a b ? a b", "c")]
)
def test_the_length_is_the_one_the_text_calls_for_not_the_shortest(text, answer):
    # Words go round a b c: only one length closes the circle.
    lm = world_lm(noise=0.3)
    best, *_ = fill(lm, text.replace("?", "___{1-3}"), FillOptions(top=100))
    assert best.fills == (answer,)
    assert best.text == text.replace("?", answer)
    exact = truth(lm, text, range(1, 4))
    assert tuple(answer.split()) == max(exact, key=lambda f: exact[f])


def test_the_words_alone_would_have_chosen_the_wrong_length():
    # c is followed by a more often than by b, so "b c b" is the rarer text, yet its one missing word is never in doubt.
    lm = world_lm()
    shortcut = torch.tensor([[0.001, 0.998, 0.001], [0.001, 0.001, 0.998], [0.6, 0.3, 0.1]])
    lm.conditionals.parts = (torch.ones(3) / 3, shortcut, 0.94 * torch.eye(3) + 0.02)
    found = fill(lm, "b ___{1-3} b", FillOptions(top=100, beam=100))
    naive = max(found, key=lambda c: c.log_prob - c.length_log_prob)
    assert naive.fills == ("c",)
    assert found[0].fills == ("c a",)
    exact = truth(lm, "b ? b", range(1, 4))
    assert max(exact, key=lambda f: exact[f]) == ("c", "a")


def test_no_length_pays_for_its_tokens():
    # Tokens that say nothing about each other: the text says nothing about the length either.
    found = fill(world_lm(noise=1.0), "a ___{1-3} a", FillOptions(top=100, beam=100))
    assert len(found) == 3 + 9 + 27
    assert all(c.length_log_prob == pytest.approx(-math.log(3)) for c in found)


def test_several_open_lengths_are_weighed_together():
    best = fill(world_lm(), "a ___{1-2} b ___{1-2} a")[0]
    # a [b c a] b [c] a would close both circles with three and one; the second can.
    assert best.fills[1] == "c"
    assert best.to_dict().keys() == {"text", "log_prob", "fills", "length_log_prob"}


# --- several texts ---------------------------------------------------------------------------------------------

SEVERAL = [
    "The ___ sat on the ___.",
    "___ fox ran",
    "the old man opened the door and the ___ ran into the garden by the river , ___ ___!",
    "he opened the ___{1-2}",
    "The ___ sat on the ___.",
    "a ___{2} by the ___{1-2} road",
]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "random", "seed": 3, "top": 2},
        {"order": "entropy", "beam": 3},
        {"order": "right-to-left", "whole_words": False, "special_tokens": True},
        {"method": "sample", "samples": 8, "seed": 1},
    ],
)
def test_a_list_gives_each_text_what_it_gets_alone(tiny_lm, options):
    together = tiny_lm.fill(SEVERAL, **options)
    for text, found in zip(SEVERAL, together, strict=True):
        alone = tiny_lm.fill(text, **options)
        assert [c.text for c in found] == [c.text for c in alone]
        assert [c.tokens for c in found] == [c.tokens for c in alone]
        for a, b in zip(found, alone, strict=True):
            assert a.log_prob == pytest.approx(b.log_prob, abs=1e-5)
            assert a.length_log_prob == (None if b.length_log_prob is None else pytest.approx(b.length_log_prob))


def test_a_list_of_exact_worlds_is_exact():
    # These conditionals know no padding: rows of one length go together.
    lm, texts = world_lm(), ["a b ? a b", "a ? c a", "b c ?", "c ? a b c", "? a"]
    every = fill(lm, [t.replace("?", "___{1-3}") for t in texts], FillOptions(top=39, beam=39))
    for text, found in zip(texts, every, strict=True):
        exact = truth(lm, text, range(1, 4))
        assert len(found) == len(exact) == 39
        for c in found:
            assert math.exp(c.log_prob) == pytest.approx(exact[tuple(c.fills[0].split())], abs=1e-9)
            assert c.prob == math.exp(c.log_prob)


def test_pieces_that_spell_one_text_do_not_shorten_the_list(tiny_lm):
    words = vocabulary(tiny_lm.tokenizer, tiny_lm.conditionals.vocab_size)
    best = tiny_lm.fill("the ___ sat", top=7)
    words._decoded.update({c.tokens[2]: "cat" for c in best[:3]})  # three tokens that spell the same
    try:
        found = tiny_lm.fill("the ___ sat", top=5)
    finally:
        words._decoded.clear()
    assert [c.tokens for c in found] == [c.tokens for c in (best[0], *best[3:])]
    assert found[0].text == "the cat sat"


def test_a_list_names_the_text_that_is_wrong(tiny_lm):
    with pytest.raises(AnyorderError, match=r"^text 2: the text has no blank"):
        tiny_lm.fill(["the ___", "the cat"])
    with pytest.raises(AnyorderError, match=r"^text 3: .*'zebra'"):
        tiny_lm.fill(["the ___", "the ___", "zebra ___"])
    assert tiny_lm.fill([]) == []
    assert [len(found) for found in tiny_lm.fill(["", "the ___", " "], top=2)] == [0, 2, 0]


# --- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("", {}, "empty"),
        ("  \n", {}, "empty"),
        ("the cat sat", {}, "no blank"),
        ("the ___{4-1}", {}, "contradicts"),
        ("___ " * 63, {}, "holds 64"),
        ("___{70}", {}, "more blanks"),
        ("the zebra ___", {}, "'zebra'"),
        ("the ___", {"order": "sideways"}, "unknown order"),
        ("the ___ ___", {"order": "given:1,1"}, "repeats or omits"),
        ("the ___ ___", {"order": "given:1"}, "repeats or omits"),
        ("the ___ ___", {"order": "given:x"}, "given:3,7,1"),
        ("the ___", {"method": "magic"}, "beam, sample, joint"),
        ("the ___", {"method": "joint"}, "two blanks"),
        ("the ___", {"top": 0}, "at least 1"),
        ("the ___ ___", {"method": "joint", "tail": 2.0}, "below 1"),
        ("the ___ ___", {"tail": 0.1}, "has no tail: leave it out, or choose --method joint"),
    ],
)
def test_bad_input_is_one_line(tiny_lm, text, options, says):
    with pytest.raises(AnyorderError) as caught:
        tiny_lm.fill(text, **options)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_megabyte_is_answered_without_tokenising_it(tiny_lm, tokenised):
    for text in ("the cat ___ " * 90_000, "_" * 1_000_000, "x" * 1_000_000, "___ " * 250_000):
        if text.startswith("__") and " " not in text:
            assert len(tiny_lm.fill(text)) == 5  # a very long blank is one blank
            continue
        with pytest.raises(AnyorderError):
            tiny_lm.fill(text)
    assert max(tokenised) < 100


def test_unknown_words_may_be_let_stand(tiny_lm):
    assert tiny_lm.fill("the zebra ___", allow_unknown=True)[0].text.startswith("the zebra ")


def test_progress_is_told(tiny_lm):
    seen: list[tuple[str, int, int]] = []
    fill(tiny_lm, "the ___ ___{1-2}", progress=lambda *told: seen.append(told))
    assert seen[-1][1] == seen[-1][2]
    assert all(done <= of for _, done, of in seen)


def test_json_has_the_agreed_fields():
    assert Completion("t", -1.0, ("a",), (1,)).to_dict() == {"text": "t", "log_prob": -1.0, "fills": ["a"]}
