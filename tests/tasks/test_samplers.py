"""The registry of samplers: every option is declared once, reaches its sampler, and is refused by all others."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.tasks.generate import plan
from anyorder.tasks.lm import MaskedLM
from anyorder.tasks.samplers import REGISTRY, SAMPLERS, holders, names, options_of

# A usable value of every option, not its default.
VALUES = {
    "order": "random", "steps": 7, "block": 3, "mode": "sequential", "influence": "attention", "pairs": True,
    "blocks": 2, "threshold": 0.25, "sharpness": 3.0,
    "speculate": 4, "schedule": "cosine", "epsilon": 0.5, "start": "random", "draft": "the cat sat",
}  # fmt: skip
OPTIONS = sorted(set().union(*map(names, SAMPLERS)))


def test_options_are_declared_in_full():
    assert set(OPTIONS) == set(VALUES)
    for sampler, kind in REGISTRY.items():
        for one in fields(kind):
            assert one.metadata["help"].endswith("."), (sampler, one.name)
    for call in (plan, MaskedLM.generate):
        assert set(OPTIONS) <= set(inspect.signature(call).parameters)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_option_is_taken_by_its_samplers_and_refused_by_others(tiny_lm, sampler, option):
    if option in names(sampler):
        _, made = options_of(sampler, {option: VALUES[option]})
        assert getattr(made, option) == VALUES[option]
        return
    with pytest.raises(AnyorderError) as caught:
        tiny_lm.generate(length=None if option == "draft" else 8, sampler=sampler, **{option: VALUES[option]})
    assert str(caught.value) == (
        f"the sampler {sampler!r} has no --{option}: leave it out, or choose {' or '.join(holders(option))}"
    )


@pytest.mark.parametrize(
    ("sampler", "given", "says"),
    [
        ("gibbs", {"block": 0}, "a block of one token is needed, not 0: raise --block"),
        ("adaptive", {"block": -1}, "raise --block"),
        ("adaptive", {"blocks": 0}, "one block is needed, not 0: raise --blocks"),
        ("adaptive", {"influence": "words"}, "choose one of tokens, attention"),
        ("gibbs", {"mode": "serial"}, "choose one of parallel, sequential"),
        ("parallel", {"schedule": "cubic"}, "choose one of optimal, linear, cosine"),
        ("parallel", {"epsilon": -1.0}, "must not be negative"),
        ("parallel", {"order": [1, 2]}, "parallel commits by"),
        ("any-order", {"speculate": 0}, "raise --speculate"),
        ("any-order", {"speculate": 4, "order": "entropy"}, "token by token"),
        ("refine", {"start": "given"}, "--start given with --draft only"),
        ("refine", {"start": "random", "draft": "the cat"}, "--start given with --draft only"),
        ("refine", {"start": "blank"}, "choose one of masks, random, given"),
        *((name, {"steps": 0}, "raise --steps") for name in holders("steps")),
    ],
)
def test_unusable_values_are_one_sentence(sampler, given, says):
    with pytest.raises(AnyorderError) as caught:
        options_of(sampler, given)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "usual"),
    [
        ({}, "any-order"),
        ({"order": "left-to-right"}, "any-order"),
        ({"pairs": False, "steps": None}, "any-order"),
        ({"steps": 3}, "parallel"),
        ({"pairs": True}, "parallel"),
        ({"epsilon": 0.0}, "parallel"),
        ({"draft": "the cat"}, "refine"),
        ({"start": "random", "steps": 3}, "refine"),
    ],
)
def test_without_a_name_the_first_that_has_the_options(given, usual):
    assert options_of(None, given)[0] == usual


def test_schedule_and_epsilon_reach_parallel(tiny_lm):
    def shares(**options):
        return [(info.positions[0] >= 0).sum().item() for _, info in tiny_lm.stream(length=12, **options)]

    assert shares(steps=4) == [3, 3, 3, 3]
    assert shares(steps=4, schedule="cosine") == [
        1,
        2,
        4,
        5,
    ]  # 12 (1 - cos(pi t / 8)), one at least
    assert shares(epsilon=1e6) == [12]
    assert shares(epsilon=0.0) == [1] * 12


def test_blocks_threshold_and_sharpness_reach_adaptive(tiny_lm):
    def drawn(**options):
        steps = tiny_lm.stream(length=12, sampler="adaptive", steps=12, **options)
        return [(info.positions[0] >= 0).sum().item() for _, info in steps]

    # With a threshold of 1 no tie keeps positions apart and none brings them together: blocks of one token each.
    assert max(drawn(blocks=1, threshold=1.0)) == 1
    assert max(drawn(blocks=3, threshold=1.0)) == 3
    # No dependence is let through, so that what stands beside a block is independent of it; a random model has no such.
    assert max(drawn(block=2, blocks=3, threshold=0.0)) == 2
    same = [[state.tokens for state, _ in tiny_lm.stream(length=12, sampler="adaptive", steps=12, sharpness=s)]
            for s in (0.0, 30.0)]  # fmt: skip
    assert any(not torch.equal(a, b) for a, b in zip(*same, strict=True))


def test_refine_starts_from_random_tokens(tiny_lm):
    first = {}
    for start in ("masks", "random"):
        _, info = next(tiny_lm.stream(length=12, sampler="refine", steps=4, start=start))
        first[start] = (info.rows, int((info.positions >= 0).sum()))
    assert first == {"masks": (1, 12), "random": (2, 12 * 4 // 5)}  # a fifth of the random start is left to read


@pytest.mark.parametrize("sampler", holders("draft"))
def test_a_draft_is_where_it_starts(tiny_lm, sampler):
    text = "the quick fox ran over the lazy dog ."
    ids = torch.tensor(tiny_lm.tokenizer(text)["input_ids"])
    options = {"refine": {"steps": 8}}.get(sampler, {"steps": 1})
    state, info = next(tiny_lm.stream(draft=text, sampler=sampler, **options))
    drawn = torch.zeros_like(ids, dtype=torch.bool)
    drawn[info.positions[0][info.positions[0] >= 0]] = True
    assert 0 < drawn.sum() < len(ids) - 2
    assert torch.equal(state.tokens[0][~drawn], ids[~drawn])
    (one,) = tiny_lm.generate(draft=text, sampler=sampler)
    assert len(one.tokens) == len(ids) - 2
    (filled,) = tiny_lm.generate(draft="the ___{3} ran .", sampler=sampler, seed=1)
    assert len(filled.tokens) == 6
    assert tiny_lm.conditionals.mask_id not in filled.tokens


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"draft": "the cat", "length": 9}, "leave --length out"),
        ({"draft": "the cat", "prompt": "a"}, "exclude each other"),
        ({"draft": " "}, "the draft is empty"),
        ({"draft": "the ___{1-3}"}, "one length each"),
    ],
)
def test_a_draft_stands_alone(tiny_lm, options, says):
    with pytest.raises(AnyorderError, match=says):
        tiny_lm.generate(**options)


def test_reading_the_options_is_cheap():
    code = "import sys, anyorder.tasks.samplers; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
