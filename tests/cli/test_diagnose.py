from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from anyorder.errors import AnyorderError
from anyorder.show.diagnose_page import page
from anyorder.stats import mean_estimate
from anyorder.studies.dependence import Dependence
from anyorder.studies.diagnose import Diagnosis, _stutter_plans, diagnose
from anyorder.studies.options.generation import DiagnoseOptions
from anyorder.tasks.generate import plan
from running import anyorder

Command = Callable[..., tuple[int, str, str]]
SMALL = (
    *("--texts", "2", "--length", "8", "--pairs", "4", "--chain-texts", "1"),
    *("--sweeps", "8", "--samples", "2", "--temperature", "1.0"),
)
TEXTS = "The old man opened the door .\nA dog ran into the house .\ncat\n\nThe cat sat on the mat .\n"


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_checkpoint: Path
) -> Command:
    """Run `anyorder diagnose` with the tiny model in a folder with texts.txt."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text(TEXTS)

    def run(*arguments: str) -> tuple[int, str, str]:
        return anyorder(monkeypatch, capsys, "diagnose", str(tiny_checkpoint), *arguments)

    return run


def test_json_and_page(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    status, out, err = command("--data", "texts.txt", *SMALL, "--json", "--out", "report.html")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert len(found["texts"]) == len(found["safe_blocks"]) == len(found["safe_spaced"]) == 2
    assert len(found["pairs"]) == 2 * (4 + 2)
    assert all(p["information"] >= 0 and 0 <= p["influence"] <= 1 and p["attention"] > 0 for p in found["pairs"])
    assert {c["block"] for c in found["chains"]} >= {1}
    assert all(len(c["overlap"]) == 9 and c["overlap"][0] == 1.0 for c in found["chains"])
    assert {s["sampler"].split(",")[0] for s in found["stutter"]} == {
        *("any-order", "parallel", "gibbs", "adaptive", "refine")
    }
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.count("data:image/png;base64,") == 3
    assert "http" not in html.replace("data:", "")  # nothing is fetched from anywhere
    for text in found["texts"]:
        assert text in html


def test_the_same_seed_gives_the_same_report(command: Command) -> None:
    first = command("--data", "texts.txt", *SMALL, "--json", "--seed", "5")
    assert first == command("--data", "texts.txt", *SMALL, "--json", "--seed", "5")


def test_samplers_stutter_under_one_reading(tiny_lm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_lm.model.config, "anyorder_ordered", True, raising=False)
    ways = _stutter_plans(DiagnoseOptions(length=8))
    assert {plan(tiny_lm, length=8, temperature=t, **options).reading for _, options, t in ways} == {"full"}


def test_errors_are_over_texts(command: Command) -> None:
    """Pairs of one text resemble each other, and so do its neighbours: as a sample they would claim too much."""
    texts = enumerate((0.1, 0.3))
    pairs = [Dependence(text, 0, 1, False, nats, 0.0, None) for text, nats in texts for _ in range(4)]
    found = Diagnosis("m", DiagnoseOptions(), pairs=pairs).information(False)
    assert (found.value, found.standard_error) == (pytest.approx(0.2), pytest.approx(0.1))
    alone = Diagnosis("m", DiagnoseOptions(), pairs=[replace(p, information=i) for i, p in enumerate(pairs[:4])])
    assert alone.information(False) == mean_estimate([0, 1, 2, 3])
    status, out, _ = command("--data", "texts.txt", *SMALL, "--samples", "1", "--chain-texts", "0", "--json")
    assert status == 0
    assert {one["standard_error"] for one in json.loads(out)["stutter"]} == {None}


def test_plain_output_is_advice(command: Command) -> None:
    status, out, _ = command("--data", "texts.txt", *SMALL, "--chain-texts", "0")
    assert status == 0
    assert "nats" in out
    assert "Most stutter" in out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "--data"),
        (("--data", "missing.txt"), "there is no file 'missing.txt'"),
        (("--data", "empty.txt"), "holds no text"),
        (("--data", "short.txt"), "at least 4 tokens"),
        (("--data", "texts.txt", "--out", "nowhere/r.html"), "no folder"),
        (("--data", "texts.txt", "--out", "r.png"), "ends in .html"),
        (("--data", "texts.txt", "--sweeps", "1"), "sweeps must be at least 8"),
        (("--data", "texts.txt", "--budget", "0"), "budget must be above 0"),
        (("--data", "texts.txt", "--temperature", "0"), "above 0"),
        (("--data", "texts.txt", "--temperature", "hot"), "cannot read temperature"),
    ],
)
def test_bad_input_is_one_line(command: Command, tmp_path: Path, arguments: tuple[str, ...], what: str) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "short.txt").write_text("cat\ndog\n")
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert what in err
    assert err.count("\n") == 1


def test_the_page_stands_half_way(tiny_lm) -> None:
    """Ctrl-C after the first text: what is there is reported, what is not is left out. Texts are escaped."""
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    settings = DiagnoseOptions(texts=1, length=8, pairs=4, chain_texts=0, samples=1)
    _, share, found = next(diagnose(tiny_lm, ["the old man opened the door ."], settings))
    assert 0 < share < 1
    found.texts[0] = "<script>alert(1)</script>"
    html = page(found)
    assert "<script>" not in html
    assert "Stutter" not in html
    assert found.to_dict()["chains"] == []


def test_settings_are_checked() -> None:
    with pytest.raises(AnyorderError, match="texts must be at least 1"):
        DiagnoseOptions(texts=0)
