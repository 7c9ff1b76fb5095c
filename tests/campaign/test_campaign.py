"""A slice of the campaign small enough for every run of the tests; ``make campaign`` is the whole of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anyorder
from anyorder.errors import AnyorderError
from campaign import commands
from campaign import every as campaign
from campaign.inputs import Kind, client_of, explore
from campaign.place import Said, command, judge, loaded_once, place
from campaign.tally import Broken, Hang, Tally, check_numbers, time_limit

ROOT = Path(__file__).parents[2]
# Inputs per kind: some 25 seconds of one core together.
INPUTS = {"texts and templates": 50, "options": 20, "files": 20, "recipes": 15, "HTTP bodies": 50}
TAMPERED = 8
LEFTOVERS = 5


@pytest.fixture(scope="module")
def every() -> Iterator[dict[str, Kind]]:
    """All kinds of inputs, in their place."""
    with place(), loaded_once(), client_of(anyorder.load("model")) as client:
        yield campaign.kinds(client)


@pytest.mark.parametrize("name", [*INPUTS, *(f"checkpoints: {way}" for way in (
    "damaged files", "damaged pairs", "old vocabularies and curves", "changed settings", "headers and shapes",
    "flipped weights", "shards", "code",
)), "leftovers"])  # fmt: skip
def test_inputs_are_answered_or_refused_in_a_line(every: dict[str, Kind], name: str) -> None:
    tally = Tally()
    examples = INPUTS.get(name, LEFTOVERS if name == "leftovers" else TAMPERED)
    explore(name, every[name], examples, 0, tally)
    assert not tally.failures, tally.report()["failures"]
    assert tally.counts[name]["refused"] > 0


@pytest.mark.parametrize("name", commands.NAMES)
def test_a_command_is_answered_before_it_is_changed(every: dict[str, Kind], name: str) -> None:
    """Else every change of it would be refused for the same reason, and nothing behind that would be tried."""
    said = command(*commands.line(name, lambda: "the ___ sat on the ___"))
    assert judge(said) == "answered", said.err


@pytest.mark.parametrize(("file", "words"), [*commands.FILES, *commands.SLOW])
def test_a_file_is_read_before_it_is_damaged(every: dict[str, Kind], file: str, words: str) -> None:
    said = command(*words.format(file).split())
    assert judge(said) == "answered", said.err


def test_faults_lose_nothing(tmp_path: Path) -> None:
    """In a process of its own, which forks: one fault of each kind."""
    out = tmp_path / "faults.json"
    run = [sys.executable, "-m", "campaign", "--kind", "faults", "--rounds", "1", "--seed", "3", "--out", str(out)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    done = subprocess.run(run, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(out.read_text())["counts"]
    assert len(counts) == 8
    assert all(found["tried"] for found in counts.values())


# --- the campaign itself notices -------------------------------------------------------------------------------------


def _raises() -> str:
    raise ValueError("a bug")


def _refuses() -> str:
    raise AnyorderError("refused outside of its place")


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (_raises, "ValueError: a bug"),
        (_refuses, "AnyorderError"),
        (lambda: judge(Said(1, "", "anyorder: a line\n")), "status 1"),
        (lambda: judge(Said(2, "", "anyorder: one\nanyorder: two\n")), "several lines"),
        (lambda: judge(Said(2, "", "Usage: anyorder\n")), "another form"),
        (lambda: judge(Said(0, '{"log_prob": NaN}', "")), "answer.log_prob is nan"),
        (lambda: judge(Said(0, "log_prob nan", "")), "NaN is printed"),
        (lambda: judge(Said(0, "", "Traceback (most recent call last):")), "a traceback"),
        (lambda: os.kill(os.getpid(), signal.SIGALRM) or "", "Hang"),
    ],
)
def test_a_broken_promise_is_counted(act: Any, says: str) -> None:
    tally = Tally()
    tally.attempt("kind", 5, "given", act)
    assert tally.counts["kind"]["failed"] == 1
    assert tally.failures[0].seed == 5
    assert says in tally.failures[0].what


def _spin() -> None:
    while True:
        pass


def test_a_hang_ends() -> None:
    with pytest.raises(Hang), time_limit(0.01):
        time.sleep(5)
    with pytest.raises(Hang), time_limit(0.01):
        _spin()


def test_minus_infinity_is_a_number() -> None:
    check_numbers({"log_prob": -float("inf"), "other": [None, 1.0]})
    with pytest.raises(Broken):
        check_numbers([[float("nan")]])


def test_a_seed_does_the_same_again(every: dict[str, Kind]) -> None:
    def made(seed: int) -> list[Any]:
        seen: list[Any] = []
        explore("same", Kind(every["options"].inputs, lambda case: seen.append(case) or "answered"), 10, seed, Tally())
        return seen

    assert made(1) == made(1) != made(2)
