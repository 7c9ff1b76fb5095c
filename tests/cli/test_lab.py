from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from running import anyorder

PAGE = Path(__file__).parents[2] / "docs" / "lab.md"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Run `anyorder ...` in an empty folder and return (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> tuple[int, str, str]:
        return anyorder(monkeypatch, capsys, *arguments)

    return run


def test_mixing_json(command: Command) -> None:
    options = ("--world", "ising-clique", "--n", "4", "--coupling", "0…1", "--block", "1,4", "--json")
    status, out, err = command("lab", "mixing", *options)
    assert (status, err) == (0, "")
    found = json.loads(out)
    rows = found["rows"]
    # At each of 10 couplings: gibbs and adaptive at both sizes, parallel at 4 alone, metropolis once.
    assert len(rows) == 10 * 6
    gaps = {(r["kernel"], r["block"], r["coupling"]): r["gap"] for r in rows}
    assert gaps["gibbs", 1, 0.0] == pytest.approx(1 / 4)
    assert gaps["gibbs", 1, 1.0] < 0.01 < 0.99 < gaps["gibbs", 4, 1.0]
    biased = [r["tv_to_truth"] for r in rows if r["kernel"] == "parallel" and r["coupling"] > 0]
    assert min(biased) > 0.01
    assert found["settings"]["block"] == [1, 4]


def test_mixing_table_and_plot(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    status, out, _ = command("lab", "mixing", "--n", "3", "--kernel", "gibbs,parallel", "--plot", "m.png")
    assert status == 0
    assert "steps to mix" in out
    assert (tmp_path / "m.png").read_bytes()[:4] == b"\x89PNG"


def test_efficiency_json_and_plot(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    options = ("--n", "3", "--masks", "1,3,uniform", "--repeats", "20", "--samples", "500", "--plot", "e.png")
    status, out, _ = command("lab", "efficiency", *options, "--json")
    assert status == 0
    one, all_three, _ = json.loads(out)["rows"]
    assert one["ratio"] > 1
    assert one["worst_direction"] <= one["poincare"] * (1 + 1e-9)
    assert all_three["ratio"] == pytest.approx(1.0)
    assert one["simulated"]["repeats"] == 20
    assert (tmp_path / "e.png").exists()
    status, out, _ = command("lab", "efficiency", "--n", "3", "--masks", "2,3", "--loss", "token", "--repeats", "0")
    assert status == 0
    assert "∞" in out


def test_parallel_json_and_table(command: Command) -> None:
    options = ("--n", "3", "--coupling", "0,1", "--block", "2,3", "--stutter-n", "3", "--stutter-coupling", "9")
    status, out, _ = command("lab", "parallel", *options, "--json")
    assert status == 0
    found = json.loads(out)
    independent, coupled = found["rows"]
    assert max(independent["blocks"].values()) < 1e-12
    assert coupled["steps"]["1"] > 1
    assert coupled["steps"]["3"] == 0
    one = next(s for s in found["stutter"] if s["steps"] == 1)
    assert one["rate"] == pytest.approx(0.25, abs=0.01)
    status, out, _ = command("lab", "parallel", *options)
    assert "Stutter toy" in out


def test_a_reducible_world_is_reported(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "two.npy", np.array([[0.5, 0.0], [0.0, 0.5]]))
    status, out, _ = command("lab", "mixing", "--world", "two.npy", "--block", "1,2", "--kernel", "gibbs", "--json")
    assert status == 0
    single, both = json.loads(out)["rows"]
    assert single["remark"] == "reducible: 2 closed classes"
    assert single["mixing_time"] is None
    assert both["mixing_time"] == 1
    status, out, _ = command("lab", "mixing", "--world", "two.npy", "--block", "1", "--kernel", "gibbs")
    assert "reducible" in out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("mixing", "--world", "ising-clik"), "did you mean 'ising-clique'"),
        (("mixing", "--n", "3", "--block", "4"), "sizes from 1 to 3"),
        (("mixing", "--n", "60"), "are free"),
        (("mixing", "--coupling", "weak"), "cannot read coupling"),
        (("mixing", "--kernel", "gibs"), "did you mean 'gibbs'"),
        (("mixing", "--plot", "nowhere/m.png"), "no folder"),
        (("mixing", "--plot", "m.doc"), "ends in .png"),
        (("mixing", "--n", "6", "--coupling", "1,500"), "float64"),
        (("efficiency", "--masks", "9"), "sizes from 1 to 6"),
        (("efficiency", "--masks", "often"), "unknown masking prior"),
        (("efficiency", "--loss", "tokens"), "did you mean 'token'"),
        (("efficiency", "--repeats", "1"), "at least 2 repeats"),
        (("parallel", "--stutter-n", "1"), "cannot stutter"),
        (("parallel", "--temperature", "0"), "above 0"),
        (("parallel", "--world", "missing.json"), "no such world file"),
    ],
)
def test_bad_input_is_one_line(command: Command, arguments: tuple[str, ...], what: str) -> None:
    status, out, err = command("lab", *arguments)
    assert status == 2
    assert out == ""
    assert what in err
    assert err.count("\n") == 1


def commands_of_the_page() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.startswith("anyorder")]


# What makes a long command short; the command itself stays as it is shown.
SHORTER = {
    "lab mixing": "--coupling 0.5:1:2",
    "lab parallel": "--coupling 0:1:2 --stutter-n 3 --stutter-coupling 6",
    "lab efficiency": "--repeats 2",
    "diagnose": "--texts 1 --length 6 --pairs 2 --samples 2",
}


@pytest.mark.parametrize("line", commands_of_the_page())
def test_the_commands_of_the_page_run(command: Command, tmp_path: Path, line: str) -> None:
    (tmp_path / "sentences.txt").write_text("The old man opened the door and walked into the room.\n" * 3)
    words = shlex.split(line)[1:]
    shorter = SHORTER.get(words[0]) or SHORTER[" ".join(words[:2])]
    status, out, err = command(*words, *shorter.split())
    assert (status, err) == (0, "")
    assert out


def test_the_figures_of_the_page_are_there_and_small() -> None:
    names = re.findall(r"\]\((figures/[^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert len(names) >= 3
    for name in names:
        assert 2_000 < (PAGE.parent / name).stat().st_size < 60_000
