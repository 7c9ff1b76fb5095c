"""Generating in any word order: what is given stays, what is asked for comes, and a seed is a seed."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.tasks.generate import Generation, generations, plan
from anyorder.tasks.samplers import SAMPLERS


def text_tokens(lm: Any, text: str) -> list[int]:
    return lm.tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_makes_whole_texts_of_the_length_asked(tiny_lm, sampler):
    made = tiny_lm.generate("The cat ... the dog .", length=14, sampler=sampler, samples=3, seed=1)
    assert len(made) == 3
    for one in made:
        assert len(one.tokens) == 14
        assert not set(one.tokens) & set(tiny_lm.tokenizer.all_special_ids)
        assert one.text.startswith("The cat")
        assert one.text.endswith(" the dog .")
        assert one.log_prob < 0
        assert one.passes >= 1
    again = tiny_lm.generate("The cat ... the dog .", length=14, sampler=sampler, samples=3, seed=1)
    assert made == again
    assert made != tiny_lm.generate("The cat ... the dog .", length=14, sampler=sampler, samples=3, seed=2)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_seed_fixes_each_text_however_many_are_asked_for(tiny_lm, sampler):
    options = {"prompt": "The cat ... the dog .", "length": 14, "sampler": sampler, "temperature": 1.1, "seed": 4}
    many = [one.tokens for one in tiny_lm.generate(samples=17, **options)]  # a full batch and a text more
    assert len(set(many)) > 1
    for samples in (1, 2, 16):
        assert [one.tokens for one in tiny_lm.generate(samples=samples, **options)] == many[:samples]
    for batch in (1, 5):
        assert [one.tokens for one in generations(plan(tiny_lm, samples=7, **options), batch=batch)] == many[:7]
    for samples in (1, 3):
        *_, (state, _) = tiny_lm.stream(samples=samples, **options)
        assert [tuple(row[1:-1]) for row in state.tokens.tolist()] == many[:samples]


def test_log_prob_of_any_order_is_the_chain_rule_along_its_order(tiny_lm):
    task = plan(tiny_lm, length=6, order="right-to-left", seed=5)
    (one,) = generations(task)
    row = torch.tensor([[tiny_lm.tokenizer.cls_token_id, *one.tokens, tiny_lm.tokenizer.sep_token_id]])
    total = 0.0
    for position in range(1, 7):  # the last token knows nothing, the first one all others
        seen = row.clone()
        seen[0, 1 : position + 1] = tiny_lm.conditionals.mask_id
        log_q = tiny_lm.conditionals(seen, torch.tensor([[position]]))[0, 0]
        log_q = log_q.masked_fill(~task.canvas.allowed[position], -torch.inf).log_softmax(-1)
        total += float(log_q[row[0, position]])
    assert one.log_prob == pytest.approx(total, abs=1e-4)
    assert one.passes == 6


def test_pairs_of_a_parallel_step_can_be_drawn_jointly(tiny_lm):
    options = {"length": 12, "steps": 3, "order": "random", "samples": 3, "seed": 1}
    made = tiny_lm.generate(pairs=True, **options)
    assert made == tiny_lm.generate(pairs=True, **options)
    assert [one.tokens for one in made] != [one.tokens for one in tiny_lm.generate(**options)]
    assert made[0].passes > 3  # their conditionals are asked for beyond one row per step
    for one in made:
        assert len(one.tokens) == 12
        assert not set(one.tokens) & set(tiny_lm.tokenizer.all_special_ids)
    with pytest.raises(AnyorderError, match="choose parallel"):
        tiny_lm.generate(length=4, sampler="gibbs", pairs=True)


def test_begin_and_end_frame_the_text(tiny_lm):
    (one,) = tiny_lm.generate(begin="The cat sat.", end="The dog ran.", length=20, order="left-to-right")
    assert one.text.startswith("The cat sat.")
    assert one.text.endswith(" The dog ran.")
    assert list(one.tokens[:4]) == text_tokens(tiny_lm, "The cat sat.")
    assert list(one.tokens[-4:]) == text_tokens(tiny_lm, "The dog ran.")


def test_a_prompt_goes_anywhere(tiny_lm):
    where = {}
    for text in ("the cat", "... the cat", "... the cat ...", "the ... cat"):
        (one,) = tiny_lm.generate(text, length=12)
        ids = text_tokens(tiny_lm, "the cat")
        where[text] = (one.tokens.index(ids[0]), one.text)
        assert len(one.tokens) == 12
    assert where["the cat"][0] == 0
    assert where["... the cat"][1].endswith("the cat")
    assert " the cat" in where["... the cat ..."][1]
    assert where["the ... cat"][1].endswith(" cat")
    (between,) = tiny_lm.generate("the cat", begin="a dog", end="a fox", length=20)
    assert re.fullmatch(r"a dog.+the cat.+a fox", between.text)


def test_an_ellipsis_on_a_word_is_the_users_own(tiny_lm):
    (one,) = tiny_lm.generate("the cat... ran", length=12)
    assert one.text.startswith("the cat... ran")


def test_blanks_in_a_prompt_are_filled_alone_or_with_more(tiny_lm):
    (only,) = tiny_lm.generate("The ___ sat on the ___{2}.")
    assert len(only.tokens) == 8
    assert only.text.startswith("The ")
    assert only.text.endswith(".")
    (more,) = tiny_lm.generate("The ___ sat on the ___{2}.", length=20)
    assert len(more.tokens) == 20


def test_scattered_words_keep_their_order_and_stay_whole(tiny_lm):
    words = ["the", "quick", "brown", "fox", "ran", "over", "the", "lazy", "dog"]
    for seed in range(5):
        (one,) = tiny_lm.generate(scatter=" ".join(words), length=40, seed=seed)
        assert len(one.tokens) == 40
        assert re.search(r"\b" + r"\b.*\b".join(words) + r"\b", one.text), one.text
    placed = {tiny_lm.generate(scatter="fox dog", length=20, seed=s)[0].tokens.index(text_tokens(tiny_lm, "fox")[0])
              for s in range(6)}  # fmt: skip
    assert len(placed) > 1


def test_an_acrostic_has_one_line_per_letter(tiny_lm):
    (one,) = tiny_lm.generate(acrostic="CAT", length=18, seed=3)
    lines = one.text.split("\n")
    assert [line[0] for line in lines] == ["c", "a", "t"]  # the vocabulary has no capitals
    for line in lines:
        assert re.search(r"[.!?]$", line)
        assert not re.search(r"[.!?]", line[:-1])


def test_orders_by_number_are_the_orders_by_name(tiny_lm):
    assert tiny_lm.generate(length=5, order="right-to-left") == tiny_lm.generate(length=5, order="given:5,4,3,2,1")


def test_stream_shows_one_more_token_per_step(tiny_lm):
    mask = tiny_lm.conditionals.mask_id
    left = []
    for state, info in tiny_lm.stream("The ___ sat on the ___{2}.", samples=2):
        left.append((state.tokens == mask).sum(1).tolist())
        assert info.positions.shape[0] == 2
    assert left == [[2, 2], [1, 1], [0, 0]]


def test_more_steps_than_blanks_are_clamped_and_said_so(tiny_lm):
    with pytest.warns(UserWarning, match="20 steps for 8 blanks"):
        (one,) = tiny_lm.generate(length=8, steps=20)
    assert one.passes == 8


def test_fewer_steps_take_fewer_passes(tiny_lm):
    assert tiny_lm.generate(length=16, steps=4)[0].passes == 4
    assert tiny_lm.generate(length=16)[0].passes == 16


def test_greedy_is_the_same_for_every_seed(tiny_lm):
    texts = {tiny_lm.generate(length=8, order="left-to-right", top_k=1, seed=s)[0].text for s in range(4)}
    assert len(texts) == 1


def test_texts_come_as_batches_finish(tiny_lm):
    steps = []
    made = generations(plan(tiny_lm, length=3, samples=20), watch=lambda *_: steps.append(1))
    next(made)
    assert len(steps) == 3  # the second batch has not begun
    assert len(list(made)) == 19


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"length": 0}, "length must be at least 1"),
        ({"length": 63}, "holds 62"),
        ({"length": 8, "sampler": "paralel"}, "did you mean 'parallel'"),
        ({"length": 8, "order": "sideways"}, "unknown order"),
        ({"length": 3, "order": "given:1,1,2"}, "repeats or omits"),
        ({"length": 3, "order": "given:1,2"}, "repeats or omits"),
        ({"length": 8, "steps": 0}, "steps must be at least 1"),
        ({"length": 8, "steps": 4, "sampler": "any-order"}, "has no --steps: leave it out, or choose parallel or"),
        ({"length": 8, "steps": 4, "order": "left-to-right"}, "parallel commits by"),
        (
            {"length": 8, "sampler": "gibbs", "order": "random"},
            "has no --order: leave it out, or choose",
        ),
        ({"length": 16, "sampler": "gibbs", "steps": 2, "block": 2}, "raise --steps or --block"),
        ({"length": 16, "sampler": "metropolis", "steps": 2}, "raise --steps"),
        ({"length": 8, "temperature": 0}, "temperature"),
        ({"length": 8, "samples": 0}, "samples must be at least 1"),
        ({"prompt": "", "length": 8}, "empty"),
        ({"begin": " ", "length": 8}, "empty"),
        ({"prompt": "the zebra", "length": 8}, "'zebra'"),
        ({"prompt": "the cat sat on the mat", "length": 4}, "leaves no room"),
        ({"prompt": "the ___{1-3}", "length": 8}, "one length each"),
        ({"prompt": "the", "scatter": "cat"}, "exclude each other"),
        ({"scatter": "..."}, "no words to scatter"),
        ({"scatter": "the cat sat", "length": 3}, "no room"),
        ({"acrostic": " "}, "no letters"),
        ({"acrostic": "CAT", "length": 5}, "too few"),
        ({"acrostic": "CXT"}, "'X'"),
        ({"prompt": "x" * 1_000_000}, "1,000,000 characters"),
        ({"scatter": "the cat " * 120_000}, "characters"),
    ],
)
def test_bad_input_is_one_line_and_long_texts_are_not_tokenised(tiny_lm, tokenised, options, says):
    with pytest.raises(AnyorderError) as caught:
        tiny_lm.generate(**options)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert max(tokenised, default=0) < 1000


def test_json_has_the_agreed_fields():
    expected = {"text": "t", "tokens": [1, 2], "log_prob": -1.0, "passes": 2, "reading": "full", "price": None}
    assert Generation("t", (1, 2), -1.0, 2).to_dict() == expected


# --- several prompts -------------------------------------------------------------------------------------------------

PROMPTS = ["The ___ sat on the ___.", "A ___{5} dog", "the ___ ran and the ___{3} by the old ___ .", "the ___ sat ."]


@pytest.mark.parametrize(
    "options",
    [
        {"order": "random"},
        {"order": "confidence", "temperature": 0.7},
        {"order": "left-to-right", "reading": "ordered-untrained"},
        {"sampler": "parallel", "steps": 2, "order": "random"},
        {"sampler": "parallel", "epsilon": 1.5},
        {"sampler": "parallel", "steps": 2, "pairs": True},
        {"sampler": "refine", "steps": 2, "start": "random", "temperature": 1.5},
        {"sampler": "gibbs", "block": 2},
        {"sampler": "metropolis"},
        {"sampler": "adaptive"},
        {"sampler": "adaptive", "influence": "attention"},
    ],
    ids=str,
)
def test_a_prompt_gets_the_same_texts_alone_and_among_others(tiny_lm, options):
    together = tiny_lm.generate(PROMPTS, samples=3, seed=4, **options)
    for prompt, found in zip(PROMPTS, together, strict=True):
        alone = tiny_lm.generate(prompt, samples=3, seed=4, **options)
        assert [(one.text, one.tokens) for one in found] == [(one.text, one.tokens) for one in alone]
        assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in alone], abs=1e-4)
        if options.get("sampler") in (None, "parallel", "refine"):
            assert [one.passes for one in found] == [one.passes for one in alone]


def test_prompts_with_rules_of_their_own_keep_them(tiny_lm):
    """Where a blank continues a word only pieces that continue one may stand, in its own row and nowhere else."""
    inside, apart = tiny_lm.generate(["dog___", "dog ___"], samples=20, seed=1)
    assert all(one.text.startswith("dog") and " " not in one.text for one in inside)
    assert all(" " in one.text or not one.text[3:].isalpha() for one in apart)


def test_a_stream_of_prompts_says_which_row_is_which(tiny_lm):
    *_, last = tiny_lm.stream(PROMPTS[:2], samples=2, seed=4)
    texts = {(row.text, row.sample): text for row, text in zip(last.rows, last.texts, strict=True)}
    made = tiny_lm.generate(PROMPTS[:2], samples=2, seed=4)
    assert texts == {(i, j): made[i][j].text for i in range(2) for j in range(2)}


def test_an_unusable_prompt_is_named(tiny_lm):
    with pytest.raises(AnyorderError, match="text 2: "):
        tiny_lm.generate(["the ___ sat", "the ___{0} sat"])
