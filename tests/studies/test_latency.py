"""Table 4 on tiny models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.errors import AnyorderError


def run(*args: object) -> str:
    result = CliRunner().invoke(app, ["evaluate", "latency", *map(str, args)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_every_sampler_is_timed_and_judged(trained: dict[str, Path]) -> None:
    models = [f"{name}={path}" for name, path in trained.items()]
    args = ["--models", *models, "--texts", 5, "--batch", 3, "--length", 20, "--steps", 2, "--steps", 6, "--steps", 99]
    answer = json.loads(run(*args, "--json"))
    found = [(r["model"], r["sampler"], r["steps"], r["tokens"]) for r in answer["rows"]]
    assert found == [
        ("u-pmlm-a", "any-order", 18, 18),
        ("u-pmlm-a", "parallel", 2, 18),
        ("u-pmlm-a", "parallel", 6, 18),
        ("gpt", "left-to-right, cached", 18, 18),
    ]
    for row in answer["rows"]:
        assert row["seconds"] > 0
        assert row["low"] < row["perplexity"] < row["high"]
        assert 0 < row["distinct_2"] <= 1
    assert answer["settings"]["judge"] == str(trained["gpt"])
    assert "any-order" in run(*args)


def test_bad_input(trained: dict[str, Path]) -> None:
    with pytest.raises(AnyorderError, match="no causal model to judge"):
        run("--models", trained["u-pmlm-a"])
