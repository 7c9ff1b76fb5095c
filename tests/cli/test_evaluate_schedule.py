"""`anyorder evaluate schedule`: what it prints, writes and draws, and what `generate` then does with it."""

from __future__ import annotations

import json
import shutil

import pytest

import anyorder as package
from anyorder.metrics.curve import read_curve
from running import anyorder


@pytest.fixture
def place(tmp_path, tiny_checkpoint):
    """A model in a folder of its own, and texts."""
    shutil.copytree(tiny_checkpoint, tmp_path / "model")
    (tmp_path / "texts.txt").write_text("the old man walked to the river and the cat sat by the door\n" * 4)
    return tmp_path


def test_a_curve_is_measured_drawn_and_found_again(monkeypatch, capsys, place):
    model, out = str(place / "model"), place / "model" / "curve.json"
    asked = ("-m", model, "--data", str(place / "texts.txt"), "--length", "8", "--steps", "1,4,8,99")
    drawn = place / "prices.png"
    status, stdout, _ = anyorder(
        monkeypatch, capsys, "evaluate", "schedule", *asked, "--out", str(out), "--plot", str(drawn), "--json"
    )
    assert status == 0
    result = json.loads(stdout)
    assert {(row["schedule"], row["steps"]) for row in result["rows"]} == {
        (name, steps) for name in ("optimal", "linear", "cosine") for steps in (1, 4, 8)
    }
    assert result["curve"] == json.loads(out.read_text())
    assert drawn.stat().st_size > 5000
    assert package.load(model).curve == read_curve(place / "model")
    status, stdout, err = anyorder(
        monkeypatch, capsys, "generate", "-m", model, "--length", "8", "--steps", "4", "--order", "random"
    )
    assert status == 0
    assert "4 steps lose about" in err
    status, _, err = anyorder(monkeypatch, capsys, "evaluate", "schedule", *asked, "--out", str(out))
    assert status == 2
    assert "--overwrite" in err
    status, stdout, _ = anyorder(monkeypatch, capsys, "evaluate", "schedule", *asked)
    assert status == 0
    assert all(len(line) <= 80 for line in stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data", "nowhere.txt"], "nowhere.txt"),
        (["--data", "{texts}", "--steps", "few"], "1,2,4"),
        (["--data", "{texts}", "--length", "60"], "lower --length"),
        (["--data", "{texts}", "--plot", "prices.doc"], ".png"),
    ],
)
def test_bad_input_is_one_line_and_status_2(monkeypatch, capsys, place, arguments, says):
    given = [part.format(texts=place / "texts.txt") for part in arguments]
    status, out, err = anyorder(monkeypatch, capsys, "evaluate", "schedule", "-m", str(place / "model"), *given)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
