"""Tasks over a model that is read in order: what runs, what the result says of it, and who is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import anyorder
from anyorder.conditionals.restricted import RestrictedOrdered
from anyorder.errors import AnyorderError
from anyorder.models.ordered import TRAINED
from anyorder.tasks.generate import plan
from anyorder.tasks.reading import ordered_of
from running import anyorder as command
from tiny import tiny_checkpoint_of

TEXTS = ["the cat sat on the mat .", "a dog ran .", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint_of("bert", tmp_path_factory.mktemp("ordered"), **{TRAINED: True})


@pytest.fixture(scope="module")
def lm(folder: Path) -> Any:
    return anyorder.load(folder)


def by_hand(lm: Any, text: str, order: list[int]) -> float:
    """The chain of one text, straight from the contract."""
    tokens = torch.tensor([lm.tokenizer(text)["input_ids"]])
    given = torch.zeros_like(tokens, dtype=torch.bool)
    given[0, [0, -1]] = True
    return float(ordered_of(lm).chain(tokens, given, torch.tensor([order])).sum())


def test_the_chain_is_read_in_order_where_the_model_was_trained_for_it(lm: Any, tiny_lm: Any) -> None:
    scores = lm.score(TEXTS, "chain")
    assert [s.reading for s in scores] == ["ordered"] * 3
    assert scores[0].to_dict()["reading"] == "ordered"
    assert scores[0].log_prob == pytest.approx(by_hand(lm, TEXTS[0], list(range(1, 8))), abs=1e-4)
    assert lm.score(TEXTS[0], "chain", order="right-to-left").log_prob == pytest.approx(
        by_hand(lm, TEXTS[0], list(range(7, 0, -1))), abs=1e-4
    )
    full = lm.score(TEXTS, "chain", reading="full")
    assert [s.reading for s in full] == ["full"] * 3
    assert abs(full[0].log_prob - scores[0].log_prob) > 1e-3  # two models for what they say
    assert tiny_lm.score(TEXTS[0], "chain").reading == "full"
    assert "reading" not in lm.score(TEXTS[0], "pll").to_dict()


def test_scores_do_not_depend_on_their_neighbours(lm: Any) -> None:
    together = lm.score(TEXTS, "chain", order="random", samples=4)
    for text, one in zip(TEXTS, together, strict=True):
        alone = lm.score(text, "chain", order="random", samples=4)
        assert alone.log_prob == pytest.approx(one.log_prob, abs=1e-4)
        assert alone.standard_error == pytest.approx(one.standard_error, abs=1e-4)


def test_texts_longer_than_the_model_are_read_in_windows(lm: Any) -> None:
    long = " ".join(["the cat sat"] * 40)
    score = lm.score(long, "chain", stride=20)
    assert score.windows > 1
    assert score.tokens == 120
    assert score.reading == "ordered"


@pytest.mark.parametrize("order", ["random", "left-to-right", "confidence", "given:3,1,2,4,5,6,7,8"])
def test_generation_says_how_it_read_and_how_probable_its_text_is(lm: Any, order: str) -> None:
    texts = lm.generate("the ... .", length=10, order=order, samples=3)
    assert {one.reading for one in texts} == {"ordered"}
    again = lm.generate("the ... .", length=10, order=order, samples=3)
    assert texts == again
    assert {one.reading for one in lm.generate(length=8, reading="full")} == {"full"}


def test_the_log_prob_of_a_generation_is_the_chain_of_its_text(lm: Any) -> None:
    one = lm.generate(length=7, order="left-to-right", seed=3)[0]
    canvas = plan(lm, length=7).canvas
    allowed = RestrictedOrdered(ordered_of(lm), canvas.allowed)
    tokens = canvas.layout.tokens[None].clone()
    tokens[canvas.layout.free[None]] = torch.tensor(one.tokens)
    order = canvas.layout.free.nonzero()[:, 0][None]
    chain = allowed.chain(tokens, ~canvas.layout.free[None], order)
    assert one.log_prob == pytest.approx(float(chain.sum()), abs=1e-4)


def test_other_samplers_read_in_full(lm: Any) -> None:
    assert lm.generate(length=8, steps=2)[0].reading == "full"
    with pytest.raises(AnyorderError, match="the sampler 'parallel' needs the model read in full"):
        lm.generate(length=8, steps=2, reading="ordered")
    with pytest.raises(AnyorderError, match="pll needs the model read in full"):
        lm.score(TEXTS[0], "pll", reading="ordered")


def test_a_model_not_trained_for_it_is_refused_unless_one_insists(tiny_lm: Any) -> None:
    for attempt in (
        lambda how: tiny_lm.generate(length=8, reading=how)[0],
        lambda how: tiny_lm.score(TEXTS[0], "chain", reading=how),
    ):
        with pytest.raises(AnyorderError, match="not trained to be read in order"):
            attempt("ordered")
        assert attempt("auto").reading == "full"
        assert attempt("ordered-untrained").reading == "ordered"
        with pytest.raises(AnyorderError, match="unknown reading 'backwards': choose one of auto, full, ordered"):
            attempt("backwards")


def test_commands(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the cat sat .\n")
    base = ("--model", str(folder), "--json")
    code, out, _ = command(monkeypatch, capsys, "score", str(texts), "--method", "chain", *base)
    assert (code, json.loads(out)["reading"]) == (0, "ordered")
    code, out, _ = command(monkeypatch, capsys, "score", str(texts), "--method", "chain", "--reading", "full", *base)
    assert (code, json.loads(out)["reading"]) == (0, "full")
    code, out, _ = command(monkeypatch, capsys, "generate", "--length", "8", *base)
    assert (code, json.loads(out)[0]["reading"]) == (0, "ordered")
    code, _, err = command(monkeypatch, capsys, "generate", "--length", "8", "--reading", "sideways", *base)
    assert code == 2
    assert err.count("\n") == 1
