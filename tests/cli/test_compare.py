"""`anyorder compare`: two sentences, and files of minimal pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.cli import compare as command
from anyorder.errors import AnyorderError


@pytest.fixture(autouse=True)
def one_model(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load_model", lambda *_, **__: tiny_lm)


def run(*args: object) -> str:
    result = CliRunner().invoke(app, ["compare", *map(str, args)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_two_sentences(tiny_lm: Any) -> None:
    answer = json.loads(run("the cats sat", "the cat sat", "--json"))
    assert [row["method"] for row in answer["methods"]] == ["pll", "pll-word", "chain", "bound"]
    for row in answer["methods"]:
        assert row["log_prob_a"] == pytest.approx(tiny_lm.score("the cats sat", row["method"]).log_prob, rel=1e-5)
        assert row["difference"] == pytest.approx(row["log_prob_a"] - row["log_prob_b"])
        assert row["prefers"] in ("a", "b", "undecided")
    table = run("the cats sat", "the cat sat", "--method", "pll")
    assert "pll" in table
    assert "bound" not in table


def test_all_methods_ask_the_same_model(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model trained to be read in order would be another one for the chain alone."""
    monkeypatch.setattr(tiny_lm.model.config, "anyorder_ordered", True, raising=False)
    (row,) = json.loads(run("the cats sat", "the cat sat", "--method", "chain", "--json"))["methods"]
    full, ordered = (tiny_lm.score("the cats sat", reading=reading).log_prob for reading in ("full", "ordered"))
    assert row["log_prob_a"] == pytest.approx(full, rel=1e-5)
    assert full != pytest.approx(ordered, rel=1e-3)


def test_files_of_pairs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        lines = [{"sentence_good": f"the cat {v}", "sentence_bad": f"{v} cat the", "UID": name} for v in ("sat", "ran")]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    answer = json.loads(run("--data", *files, "--method", "pll", "--method", "chain", "--json"))
    assert [(r["paradigm"], r["method"], r["pairs"]) for r in answer["rows"]] == [
        (name, method, n) for name, n in (("one", 2), ("two", 2), ("all", 4)) for method in ("pll", "chain")
    ]
    assert all(r["low"] <= r["accuracy"] <= r["high"] for r in answer["rows"])
    assert "one" in run("--data", files[0], "--method", "pll")


def test_bad_input() -> None:
    with pytest.raises(AnyorderError, match="give two, in quotes"):
        run("only one")
    with pytest.raises(AnyorderError, match="did you mean 'chain'"):
        run("a", "b", "--method", "chian")
    with pytest.raises(AnyorderError, match="no file"):
        run("--data", "nowhere.jsonl")
