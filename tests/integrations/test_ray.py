"""Ray with two local workers, really killed: the rows of the plain command, none lost, none twice."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

pytest.importorskip("ray", reason="the extra cluster is not installed")

import ray

from anyorder.cli import app
from anyorder.cli import files as command
from anyorder.errors import AnyorderError
from anyorder.integrations.ray import Job, map
from anyorder.integrations.ray.cluster import connected
from anyorder.integrations.ray.engine import Pool
from anyorder.integrations.ray.worker import Worker
from anyorder.tasks.options import GenerateOptions, ScoreOptions, TranslateOptions
from running import anyorder
from tiny import tiny_translator

WINDOW = 4
WORDS = ["the", "cat", "dog", "king", "queen", "sat", "ran", "on", "in", "garden", "river"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Ray as ``--engine ray`` starts it, for two workers and a reader; its address."""
    with connected(None, 3):
        yield ray.get_runtime_context().gcs_address


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WINDOW", WINDOW)


def texts(count: int) -> list[str]:
    """Of different lengths, some empty."""
    return [" ".join(WORDS[(i * 7 + j * j) % len(WORDS)] for j in range(i % 9)) for i in range(count)]


def run(*arguments: object) -> None:
    result = CliRunner().invoke(app, words(arguments))
    if result.exception is not None:
        raise result.exception


def words(arguments: Any) -> list[str]:
    return [str(one) for one in arguments]


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def until(true: Any, seconds: float = 200) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


# A worker that takes its time whatever the machine, so that a kill comes in the middle. A class of the main script
# travels to the workers as it is.
SLOW = f"""
import time
import anyorder.cli as cli
import anyorder.integrations.ray.engine as engine
Worker = engine.Worker
class Slow(Worker):
    def answer(self, texts, first):
        time.sleep(0.2)
        return Worker.answer(self, texts, first)
engine.Worker, cli.files.WINDOW = Slow, {WINDOW}
cli.main()
"""


def workers() -> set[int]:
    """The processes of this test's slow workers."""
    found = set()
    for one in psutil.Process().children(recursive=True):
        try:
            found |= {one.pid} if one.cmdline()[0].startswith("ray::Slow") else set()
        except (psutil.Error, IndexError):
            continue
    return found


def test_a_killed_worker_and_a_killed_driver_lose_nothing(cluster: str, tmp_path: Path, tiny_checkpoint: Path) -> None:
    count = 120 * WINDOW
    source, cut, whole = tmp_path / "in.txt", tmp_path / "cut.jsonl", tmp_path / "whole.jsonl"
    source.write_text("".join(text + "\n" for text in texts(count)))
    said = ["score", source, "--method", "bound", "--samples", 4, "--seed", 3, "--model", tiny_checkpoint]
    there = [*said, "--out", cut, "--engine", "ray", "--address", cluster, "--workers", 2]
    driver = subprocess.Popen([sys.executable, "-c", SLOW, *words(there)])
    try:
        until(lambda: lines(cut) > 3 * WINDOW and len(workers()) == 2)
        before = workers()
        killed = min(before)
        os.kill(killed, signal.SIGKILL)
        at = lines(cut)
        # The work goes on, and the worker that was killed has been started again.
        until(lambda: workers() - before and lines(cut) > at + 3 * WINDOW)
        assert killed not in workers()
        assert driver.poll() is None
    finally:
        driver.kill()
        driver.wait()
    assert 0 < lines(cut) < count
    with pytest.raises(AnyorderError, match="unfinished: continue it with --resume"):
        run(*said, "--out", cut)
    run(*said, "--out", cut, "--engine", "ray", "--workers", 1, "--resume")
    run(*said, "--out", whole)
    assert cut.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.jsonl", "in.txt", "whole.jsonl"]


@pytest.mark.parametrize(
    ("name", "words", "options"),
    [
        ("generate", ["--samples", 2], GenerateOptions(samples=2, seed=5)),
        ("translate", ["--steps", 2, "--draw"], TranslateOptions(steps=2, draw=True, seed=5)),
    ],
)
def test_windows_of_any_worker_make_the_bytes_of_the_plain_command(
    tmp_path: Path, name: str, words: list[Any], options: Any
) -> None:
    """Drawn texts too, and by two workers that have their windows the other way round."""
    source, out, model = tmp_path / "in.txt", tmp_path / "out.jsonl", tiny_translator(tmp_path / "model")
    given = [f"the {'old ' * (i % 5)}cat ___" for i in range(3 * WINDOW)]
    source.write_text("".join(text + "\n" for text in given))
    run(name, "--file", source, "--model", model, "--seed", 5, *words, "--out", out)
    two = [Worker(Job(name, options, str(model))) for _ in range(2)]
    answers = {at: two[at % 8 // 4].answer(given[at : at + WINDOW], at + 1) for at in (8, 4, 0)}
    made = [line.rstrip("\n") for at in sorted(answers) for line in answers[at].lines]
    assert made == out.read_text().splitlines()


def test_a_dataset_has_the_rows_of_the_command(
    cluster: str, tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of any size, columns of its own, and a window that ends in the middle of a block."""
    monkeypatch.setattr(command, "WINDOW", 256)
    prompts = [f"the {'old ' * (i % 5)}___ sat" for i in range(300)]
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("".join(prompt + "\n" for prompt in prompts))
    run("fill", "--file", source, "--method", "sample", "--samples", 4, "--out", out, "--model", tiny_checkpoint)
    dataset = ray.data.from_items([{"prompt": text, "id": i} for i, text in enumerate(prompts)], override_num_blocks=3)
    filled = map(
        dataset, "fill", column="prompt", model=str(tiny_checkpoint), workers=1, method="sample", samples=4
    ).take_all()
    assert [row["id"] for row in filled] == list(range(300))
    assert [without_nulls({"text": row["text"], "completions": row["completions"]}) for row in filled] == [
        json.loads(line) for line in out.read_text().splitlines()
    ]


def without_nulls(value: Any) -> Any:
    """A row of a table as JSON has it: what is not said is not there."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if hasattr(value, "__len__") and not isinstance(value, str) else value


@pytest.mark.parametrize(
    ("said", "options", "match"),
    [
        ("score", {"column": "prompt"}, "no column 'prompt': choose one of text"),
        ("score", {"top": 3}, "score has no option 'top'"),
        ("score", {"method": "chian"}, "did you mean 'chain'"),
        ("compress", {}, "compress"),
        ("score", {"workers": 3}, "3 workers leave no CPU to read with"),
    ],
)
def test_a_dataset_that_cannot_be_answered_is_refused_at_once(
    cluster: str, said: str, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(AnyorderError, match=match):
        map(ray.data.from_items([{"text": "a cat"}]), said, **options)


def test_a_refusal_of_a_worker_is_one_sentence(cluster: str, tmp_path: Path, tiny_checkpoint: Path) -> None:
    with pytest.raises(AnyorderError, match="nowhere"):
        Pool(Job("score", ScoreOptions(), str(tmp_path / "nowhere")), 1)
    bad = Worker(Job("score", ScoreOptions(strict=True), str(tiny_checkpoint))).answer(["cat " * 99], 7)
    assert isinstance(bad, str)
    assert bad.startswith("text 7 has")


def test_an_address_where_nothing_listens_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # this process may have its cluster already
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        status, _, said = anyorder(monkeypatch, capsys, "score", "a cat", "--engine", "ray", "--address", address)
    assert status == 2
    assert said.count("\n") == 1
    assert f"no Ray cluster answers at {address}" in said


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(AnyorderError, match=r"pip install 'anyorder\[cluster\]'"):
        run("score", "a cat", "--engine", "ray")
