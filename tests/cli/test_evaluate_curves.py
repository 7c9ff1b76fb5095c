"""`anyorder evaluate curves`: read from the logs that runs write, and drawn."""

from __future__ import annotations

import json

import pytest

from running import anyorder


def _log(folder, *readings, torn=""):
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in readings) + torn)
    return folder


def _validation(step, loss, **more):
    estimate = {"value": loss, "standard_error": 0.05, "samples": 9}
    return {"step": step, "tokens": 100_000 * step, "validation": estimate, **more}


@pytest.fixture
def runs(tmp_path):
    """Two runs: one read in both ways and still going, one in full."""
    in_order = {"value": 6.5, "standard_error": 0.1, "samples": 9}
    step = {"step": 5, "loss": 7.0, "rate": 1.0, "tokens": 500_000}
    first = _log(tmp_path / "a", step, _validation(10, 6.0, validation_ordered=in_order), torn='{"step": 20, "vali')
    return first, _log(tmp_path / "b", step, _validation(10, 5.0), _validation(20, 4.0))


def test_rows_are_the_validations_of_the_logs(monkeypatch, capsys, runs, tmp_path):
    a, b = runs
    drawn = tmp_path / "curves.png"
    asked = ("evaluate", "curves", f"one={a}", f"two={b / 'metrics.jsonl'}")
    status, out, _ = anyorder(monkeypatch, capsys, *asked, "--plot", str(drawn), "--json")
    assert status == 0
    rows = [(r["run"], r["step"], r["tokens"], r["loss"], r["standard_error"]) for r in json.loads(out)["rows"]]
    assert rows == [
        ("one", 10, 1_000_000, 6.0, 0.05),
        ("one in order", 10, 1_000_000, 6.5, 0.1),
        ("two", 10, 1_000_000, 5.0, 0.05),
        ("two", 20, 2_000_000, 4.0, 0.05),
    ]
    assert drawn.stat().st_size > 5000
    status, out, _ = anyorder(monkeypatch, capsys, *asked)
    assert status == 0
    assert "4.000 ± 0.050" in out
    assert "5.000" not in out  # the last of each run


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "anyorder train"),
        ('{"step": 1, "loss": 2.0}\n', "no validation yet"),
        ("3\n", "no training log"),
        ('{"step": 1, "tokens": 9, "validation": 3}\n', "cannot be read"),
        ('{"tokens": 9, "validation": {"value": 3, "standard_error": 1}}\n', "(no 'step'): remove that line"),
        ('{"step": 1, "tokens": 9, "validation": {"value": NaN, "standard_error": 1}}\n', "a loss of nan"),
        ('{"step": 1, "tokens": 1e30, "validation": {"value": 3, "standard_error": 1}}\n', "cannot be read"),
        ('{"step": 1, "tokens": 9, "validation": {"value": 3, "standard_error": {}}}\n', "cannot be read"),
    ],
)
def test_what_is_no_run_is_refused_in_one_line(monkeypatch, capsys, tmp_path, content, says):
    if content is not None:
        (tmp_path / "metrics.jsonl").write_text(content)
    status, _, err = anyorder(monkeypatch, capsys, "evaluate", "curves", str(tmp_path))
    assert status == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_a_single_held_out_text_has_no_standard_error(monkeypatch, capsys, tmp_path):
    one = {"value": 3.0, "standard_error": None, "samples": 1}
    log = _log(tmp_path / "a", {"step": 1, "tokens": 9, "validation": one})
    status, out, _ = anyorder(monkeypatch, capsys, "evaluate", "curves", str(log))
    assert (status, "3.000" in out, "nan" in out, "±" in out) == (0, True, False, False)
    status, out, _ = anyorder(monkeypatch, capsys, "evaluate", "curves", str(log), "--json")
    assert (status, json.loads(out)["rows"][0]["standard_error"]) == (0, None)
