"""Table 4 on tiny models."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.errors import AnyorderError
from anyorder.studies.causal import load_causal
from anyorder.studies.generation import causal_writer
from anyorder.studies.options.generation import LatencyOptions
from anyorder.text import vocabulary as vocabulary_module
from anyorder.training.tokenizer import load_tokenizer


def run(*args: object) -> str:
    result = CliRunner().invoke(app, ["evaluate", "latency", *map(str, args)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_the_causal_model_draws_from_the_tokens_of_the_masked_ones(
    trained: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from anyorder.studies import generation

    tokenizer = load_tokenizer(trained["gpt"])
    size = load_causal(trained["gpt"]).config.vocab_size
    unused = next(token for token, i in tokenizer.get_vocab().items() if i == size - 1)
    banned: list[set[int]] = []
    inner = generation.causal_sample

    def caught(model: Any, start: Any, length: int, generator: Any, never: Any) -> Any:
        banned.append(set(never))
        return inner(model, start, length, generator, never)

    monkeypatch.setattr(generation, "causal_sample", caught)
    # A placeholder is never text, though the tokenizer does not call it special.
    monkeypatch.setattr(vocabulary_module, "_UNUSED", re.compile(re.escape(unused)))
    vocabulary_module._read.cache_clear()
    causal_writer("gpt", trained["gpt"], length=4).write(1)
    vocabulary_module._read.cache_clear()
    assert banned == [{*tokenizer.all_special_ids, size - 1}]


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


def test_one_step_is_refused_before_any_model_has_written() -> None:
    with pytest.raises(AnyorderError, match="steps must be at least 2"):
        LatencyOptions(steps=(8, 1))
