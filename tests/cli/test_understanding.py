"""`finetune` and `evaluate understanding` from end to end: tables, resuming, bad input."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.errors import AnyorderError
from anyorder.metrics import bootstrap
from anyorder.metrics.glue import matthews
from anyorder.studies.understanding import table as study
from anyorder.studies.understanding.outcome import Outcome
from anyorder.studies.understanding.table import table
from toy_tasks import glue_folder, squad_folder, toy_checkpoint


def run(*args: object) -> str:
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "REPLICATES", 100)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, and two tiny models."""
    root = squad_folder(glue_folder(tmp_path_factory.mktemp("place"), train=48), train=4)
    toy_checkpoint(root / "bert")
    toy_checkpoint(root / "relative", "anyorder-relative-bert")
    return root


def test_finetune_writes_a_checkpoint_and_says_what_it_reached(place: Path, tmp_path: Path) -> None:
    args = ["finetune", "cola", "--model", place / "bert", "--data-dir", place, "--epochs", 1, "--out", tmp_path / "m"]
    text = run(*args)
    assert "matthews" in text
    assert "Learnt from 48 examples" in text
    assert {"config.json", "model.safetensors", "tokenizer.json", "predictions.jsonl", "metrics.json"} <= {
        path.name for path in (tmp_path / "m").iterdir()
    }
    with pytest.raises(AnyorderError, match="--overwrite"):
        run(*args)
    answer = json.loads(run(*args, "--overwrite", "--json"))
    assert answer["rows"] == json.loads((tmp_path / "m" / "metrics.json").read_text())["rows"]
    assert answer["settings"]["task"] == "cola"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["finetune", "colla", "--out", "m"], "did you mean 'cola'"),
        (["finetune", "squad", "--out", "m"], "did you mean 'squad2'"),
        (["evaluate", "understanding", "--tasks", "cola,rtee"], "did you mean 'rte'"),
        (["evaluate", "understanding", "--models", "a*=b", "--tasks", "rte"], "another name"),
        (["evaluate", "understanding", "--against", "brt", "--models", "bert=b", "--tasks", "rte"], "mean 'bert'"),
        (["finetune", "mrpc", "--data-dir", ".", "--out", "m"], "has no folder MRPC"),
        (["finetune", "rte", "--data-dir", "CoLA", "--out", "m"], "is a file of cola, not of rte"),
        (["finetune", "rte", "--data-dir", ".", "--model", "./none", "--out", "m"], "there is no folder"),
        (["finetune", "rte", "--data-dir", ".", "--device", "xpu", "--out", "m"], "cannot use the device 'xpu'"),
        (["finetune", "rte", "--data-dir", ".", "--device", "moon", "--out", "m"], "choose one of cpu, cuda"),
        (["finetune", "rte", "--data-dir", ".", "--epochs", "0", "--out", "m"], "epochs must be above 0"),
        (
            ["finetune", "rte", "--data-dir", ".", "--model", "bert", "--max-length", "8", "--out", "CoLA"],
            "CoLA exists",
        ),
    ],
)
def test_bad_input_is_one_line(args: list[str], says: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(AnyorderError, match=says) as caught:
        run(*args)
    assert "\n" not in str(caught.value)


def arguments(place: Path, out: Path, *more: object) -> list[object]:
    models = ["--models", f"bert={place / 'bert'}", f"u-pmlm-r={place / 'relative'}"]
    return ["evaluate", "understanding", *models, "--tasks", "cola,squad2", "--data-dir", place, "--epochs", 1,
            "--lr", 3e-3, "--batch", 16, "--seeds", 1, "--train-limit", 24,
            "--multi-task", "--out", out, *more]  # fmt: skip


def test_the_table_killed_and_resumed_is_the_same(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(run(*arguments(place, tmp_path / "whole", "--json")))
    cells = [json.loads(line) for line in (tmp_path / "whole" / "cells.jsonl").read_text().splitlines()[1:]]
    models, tasks = ["bert", "u-pmlm-r"], ["cola", "squad2"]
    order = [(m, t) for t in tasks for m in models] + [(m + "*", t) for m in models for t in tasks]
    assert [(c["model"], c["task"]) for c in cells] == order
    assert not list((tmp_path / "whole").glob("*together*"))

    # Killed at the third cell, and then at the second task after learning together; the last line is torn.
    real = study.learn
    for fatal in (3, 4):
        calls = iter(range(1, 99))

        def learn(*args: Any, fatal: int = fatal, calls: Iterator[int] = calls, **keywords: Any) -> Any:
            if next(calls) == fatal:
                raise KeyboardInterrupt
            return real(*args, **keywords)

        monkeypatch.setattr(study, "learn", learn)
        with pytest.raises(BaseException):  # noqa: B017, PT011 - click's own, for an interrupt
            run(*arguments(place, tmp_path / "cut", "--resume"))
    with (tmp_path / "cut" / "cells.jsonl").open("a") as file:
        file.write('{"model": "torn')
    monkeypatch.setattr(study, "learn", real)
    resumed = json.loads(run(*arguments(place, tmp_path / "cut", "--resume", "--json", "--device", "cpu")))
    assert resumed["rows"] == whole["rows"]
    assert (tmp_path / "cut" / "understanding.md").read_text() == (tmp_path / "whole" / "understanding.md").read_text()

    rows = {(r["model"], r["task"], r["metric"]): r for r in whole["rows"]}
    assert {m for m, _, _ in rows} == {"majority", "bert", "u-pmlm-r", "bert*", "u-pmlm-r*"}
    assert rows["majority", "cola", "matthews"]["value"] == 0
    assert rows["majority", "squad2", "f1"]["value"] == pytest.approx(100 / 3)
    assert rows["bert", "cola", "matthews"]["difference"] is None
    assert rows["u-pmlm-r", "average", "glue"]["value"] == rows["u-pmlm-r", "cola", "matthews"]["value"]

    # The table as a person sees it; other settings, or another model of the same name, are refused.
    shown = run(*arguments(place, tmp_path / "cut", "--resume"))
    assert "u-pmlm-r*" in shown
    assert "difference" in shown
    with pytest.raises(AnyorderError, match="was begun with lr"):
        run(*arguments(place, tmp_path / "cut", "--resume", "--lr", 1e-3))
    with pytest.raises(AnyorderError, match="was begun with dtype"):
        run(*arguments(place, tmp_path / "cut", "--resume", "--dtype", "bfloat16"))
    with pytest.raises(AnyorderError, match="learnt cola, squad2 together: repeat"):
        run(*arguments(place, tmp_path / "cut", "--resume", "--tasks", "cola"))
    with pytest.raises(AnyorderError, match="give the other model another name"):
        run(*[str(a).replace("/bert", "/relative") for a in arguments(place, tmp_path / "cut", "--resume")])


# --- the table from written outcomes ---------------------------------------------------------------------------------


def record(model: str, seed: int, predicted: list[int], gold: list[int], *tests: str) -> dict[str, Any]:
    """A cell with the same predictions on each of ``tests``, ``cola`` if none is named."""
    columns = {"predicted": [float(p) for p in predicted], "gold": [float(g) for g in gold]}
    outcomes = [Outcome(test, ("matthews",), columns, {"matthews": 0.0}, train=10) for test in tests or ("cola",)]
    return {"model": model, "path": model, "task": "x", "seed": seed, "outcomes": [one.to_dict() for one in outcomes]}


def test_means_spreads_averages_and_differences() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 200)

    def noisy(share: float) -> list[int]:
        return np.where(rng.random(200) < share, 1 - gold, gold).tolist()

    records = [record(model, seed, noisy(share), gold.tolist())
               for model, share in (("first", 0.1), ("BERT", 0.3)) for seed in range(3)]  # fmt: skip
    rows = {(row.model, row.task): row for row in table(records)}
    values = [100 * matthews(np.array(r["outcomes"][0]["columns"]["predicted"]), gold) for r in records]
    first, bert = rows["first", "cola"], rows["BERT", "cola"]
    assert first.value == pytest.approx(np.mean(values[:3]))
    assert first.spread == pytest.approx(np.std(values[:3], ddof=1))
    assert first.difference == pytest.approx(np.mean(values[:3]) - np.mean(values[3:]))
    assert 0 < first.difference_low < first.difference < first.difference_high  # plainly better
    assert bert.difference is None  # BERT is what the others are compared with, by name
    average = rows["first", "average"]
    assert (average.value, average.spread, average.difference) == pytest.approx(
        (first.value, first.spread, first.difference)
    )
    turned = {(row.model, row.task): row for row in table(records, against="first")}
    assert turned["BERT", "cola"].difference == pytest.approx(-first.difference)
    with pytest.raises(AnyorderError, match="unknown model to compare with"):
        table(records, against="gpt")


def test_the_average_counts_both_sets_of_mnli_as_one_task() -> None:
    gold = [0, 1] * 10
    wrong = [1 - g for g in gold]
    records = [record("bert", 0, gold, gold, "cola"), record("bert", 0, wrong, gold, "mnli", "mnli-mm")]
    found = {row.task: row.value for row in table(records) if row.model == "bert"}
    assert found == pytest.approx({"cola": 100, "mnli": -100, "mnli-mm": -100, "average": 0})


def test_models_on_other_examples_are_not_compared() -> None:
    gold = [0, 1] * 10
    with pytest.raises(AnyorderError, match="other examples"):
        table([record("bert", 0, gold, gold), record("other", 0, gold, gold[::-1])])


def test_one_seed_has_no_spread() -> None:
    gold = [0, 1] * 10
    row = next(row for row in table([record("bert", 0, gold, gold)]) if row.model == "bert")
    assert row.spread is None
    assert math.isclose(row.value, 100)
