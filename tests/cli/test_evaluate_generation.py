from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import GPT2Config, GPT2LMHeadModel

from anyorder.errors import AnyorderError
from anyorder.metrics.curve import Curve
from anyorder.metrics.text import adjacent_repeats
from anyorder.show.generation import generation_table
from anyorder.studies.generation import masked_writers, real_texts, study
from running import anyorder


@pytest.fixture
def command(monkeypatch, capsys, tiny_checkpoint: Path):
    def run(*arguments: str) -> tuple[int, str, str]:
        return anyorder(monkeypatch, capsys, "evaluate", "generation", "-m", str(tiny_checkpoint), *arguments)

    return run


@pytest.fixture
def judge(tmp_path: Path, tiny_lm) -> str:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=97, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=2)
        GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt")
    tiny_lm.tokenizer.save_pretrained(tmp_path / "gpt")
    return str(tmp_path / "gpt")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "real.txt"
    lines = ["the old man walked to the river and the cat sat by the door"] * 6 + [
        "short one",
        "the the the the the the",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_row_for_every_sampler_and_number_of_steps(command, judge, corpus, tmp_path):
    out = tmp_path / "results"
    status, stdout, _ = command(
        "--steps", "2,4", "--length", "8", "--texts", "3", "--judge", judge, "--corpus", str(corpus), "--out", str(out),
        "--json",
    )  # fmt: skip
    assert status == 0
    result = json.loads(stdout)
    assert json.loads((out / "generation.json").read_text()) == result
    assert [(r["sampler"], r["steps"]) for r in result["rows"]] == [
        ("real text", 0), ("any-order", 8), ("parallel linear", 2), ("parallel linear", 4), ("parallel cosine", 2),
        ("parallel cosine", 4), ("refine", 2), ("refine", 4), ("gibbs", 2), ("gibbs", 4),
    ]  # fmt: skip
    passes = {(r["sampler"], r["steps"]): r["passes"] for r in result["rows"]}
    assert passes["any-order", 8] == 8
    assert passes["parallel linear", 2] == passes["refine", 2] == passes["gibbs", 2] == 2
    assert all(r["perplexity"] > 1 and r["entropy"] >= 0 for r in result["rows"])
    assert (out / "generation.png").stat().st_size > 1000
    assert (out / "generation.md").read_text().count("\n") == 12


def test_every_schedule_pairs_and_the_ordered_reading_have_their_rows(tiny_lm, monkeypatch):
    curve = Curve((0.0, 0.5), (6.0, 2.0), (0.1, 0.1), tokens=4, texts=9)
    monkeypatch.setattr(tiny_lm.model.config, "anyorder_ordered", True, raising=False)
    lm = replace(tiny_lm, curve=curve)
    asked = {"samplers": ("parallel", "pairs"), "schedules": ("optimal", "linear"), "order": "random"}
    writers = list(masked_writers("m", lm, length=8, steps=[2], batch=2, **asked))
    assert [(w.sampler, w.steps) for w in writers] == [
        ("any-order", 8), ("ordered", 8), ("parallel optimal", 2), ("parallel linear", 2), ("pairs optimal", 2),
        ("pairs linear", 2),
    ]  # fmt: skip
    rows = list(study(writers, texts=2))
    assert [row.passes for row in rows[:4]] == [8, 8, 2, 2]
    assert rows[4].passes > 2, "pairs ask further rows"
    console = Console(width=80, file=io.StringIO())
    console.print(generation_table([replace(row, perplexity=1234.5, low=1200.1, high=1300.2) for row in rows]))
    shown = console.file.getvalue()
    assert "parallel optimal  " in shown
    assert "1234 (1200 to 1300)" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_what_cannot_be_written_is_refused_before_anything_is(tiny_lm, monkeypatch):
    """Not after the rows before it, which may have taken hours and would be lost."""
    for options in ({"order": "left-to-right"}, {"schedules": ["optimal"]}):
        with pytest.raises(AnyorderError):
            list(masked_writers("m", tiny_lm, length=8, steps=[2], samplers=["parallel"], **options))


def test_real_texts_are_the_last_long_enough_lines(tiny_lm, corpus):
    rows = real_texts(tiny_lm, corpus, 10, 4).rows
    assert len(rows) == 4
    assert all(len(row) == 10 for row in rows)
    assert adjacent_repeats(rows) == 0.0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--steps", "many"], "1,2,4"),
        (["--steps", "1"], "between 2"),
        (["--steps", "900"], "between 2"),
        (["--steps", "4", "--samplers", "magic"], "magic"),
        (["--steps", "4", "--length", "8", "--schedules", "square"], "square"),
        (["--steps", "4", "--length", "8", "--schedules", "optimal"], "curve"),
        (["--steps", "4", "--corpus", "nowhere.txt", "--length", "8"], "nowhere.txt"),
        (["--steps", "4", "--judge", "./nowhere"], "./nowhere"),
        (["--steps", "4", "--out", "no/such/folder"], "no folder"),
    ],
)
def test_bad_input_is_one_line_and_status_2(command, arguments, says):
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
