from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from anyorder.show.trace import Tracer
from anyorder.tasks.generate import generations, plan
from running import anyorder


@pytest.fixture
def command(monkeypatch, capsys, tiny_checkpoint: Path):
    """Run `anyorder generate` with the tiny model and return (status, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        return anyorder(monkeypatch, capsys, "generate", "-m", str(tiny_checkpoint), *arguments)

    return run


def test_json_is_the_list_python_gives(command, tiny_lm):
    status, out, err = command("--length", "8", "--samples", "2", "--seed", "7", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == [g.to_dict() for g in tiny_lm.generate(length=8, samples=2, seed=7)]


def test_every_option_reaches_the_sampler(command, tiny_lm):
    status, out, _ = command(
        "--begin", "The cat", "--end", "the dog .", "--length", "12", "--order", "left-to-right",
        "--temperature", "0.7",
        "--top-k", "9", "--top-p", "0.9", "--min-p", "0.01", "--typical", "0.95", "--seed", "3",
    )  # fmt: skip
    (same,) = tiny_lm.generate(
        begin="The cat", end="the dog .", length=12, order="left-to-right", temperature=0.7, top_k=9, top_p=0.9,
        min_p=0.01, typical=0.95, seed=3,
    )  # fmt: skip
    assert status == 0
    assert out == same.text + "\n"


@pytest.mark.parametrize(
    "options",
    [
        {"length": 8, "steps": 4, "schedule": "cosine"},
        {"length": 8, "epsilon": 2.5},
        {"length": 8, "sampler": "refine", "start": "random"},
        {"draft": "the cat sat on the mat .", "sampler": "refine", "start": "given", "steps": 2},
        {"length": 8, "sampler": "gibbs", "block": 3, "mode": "sequential"},
    ],
)
def test_options_of_samplers_reach_them(command, tiny_lm, options):
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    status, out, _ = command(*arguments, "--json")
    assert status == 0
    assert json.loads(out) == [g.to_dict() for g in tiny_lm.generate(**options)]


def test_wrong_options_are_refused_before_a_model_is_loaded(monkeypatch, capsys):
    status, _, err = anyorder(monkeypatch, capsys, "generate", "-m", "no/such/folder", "--block", "4")
    assert (status, "has no --block" in err) == (2, True)


def test_trace_is_table_1(command):
    status, out, _ = command("--prompt", "the ___ sat ___ .", "--order", "given:2,1", "--trace")
    assert status == 0
    lines = out.splitlines()
    assert lines[0].split() == ["Step", "Prediction", "index", "State", "of", "the", "sequence"]
    assert lines[1].split() == ["0", "n/a", "the", "_", "sat", "_", "."]
    assert lines[2].split()[:5] == ["1", "4", "the", "_", "sat"]
    assert lines[3].split()[:3] == ["2", "2", "the"]
    assert "_" not in lines[3]
    assert lines[4] == "Generation order: 4→2"


def test_trace_leaves_stdout_to_json(command):
    _, out, err = command("--length", "4", "--trace", "--json")
    assert len(json.loads(out)[0]["tokens"]) == 4
    assert "Prediction index" in err


@pytest.mark.parametrize("sampler", ["parallel", "metropolis"])
def test_a_terminal_is_redrawn_with_colour(tiny_lm, sampler):
    from rich.console import Console

    screen = io.StringIO()
    task = plan(tiny_lm, length=6, sampler=sampler)
    with Tracer(Console(file=screen, force_terminal=True, width=80, height=12)) as tracer:
        list(generations(task, tracer.watch))
    assert "\x1b[" in screen.getvalue()
    assert "Prediction index" in screen.getvalue()


def test_interruption_leaves_what_is_finished(command, monkeypatch):
    import anyorder.tasks.generate

    def interrupted(task, watch):
        yield from list(generations(task, watch))[:2]
        raise KeyboardInterrupt

    monkeypatch.setattr(anyorder.tasks.generate, "generations", interrupted)
    status, out, err = command("--length", "4", "--samples", "5", "--json")
    assert status == 130
    assert len(json.loads(out)) == 2
    assert "2 of 5 texts finished" in err


def test_clamped_steps_are_said_on_stderr(command):
    status, out, err = command("--length", "4", "--steps", "9")
    assert status == 0
    assert len(out.splitlines()) == 1
    assert err == "anyorder: note: 9 steps for 4 blanks: 4 are enough\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sampler", "gibs"], "did you mean 'gibbs'"),
        (["--sampler", "gibbs", "--block", "0"], "block must be at least 1"),
        (["--block", "4"], "the sampler 'any-order' has no --block: leave it out, or choose gibbs or adaptive"),
        (["--sampler", "any-order", "--mode", "parallel"], "has no --mode: leave it out, or choose gibbs"),
        (["--sampler", "gibbs", "--influence", "tokens"], "has no --influence: leave it out, or choose adaptive"),
        (["--length", "100"], "lower --length"),
        (["--prompt", ""], "empty"),
        (["--prompt", "the zebra"], "zebra"),
        (["--length", "3", "--order", "given:1,2,2"], "repeats or omits"),
        (["--prompt", "x" * 1_000_000], "characters"),
    ],
)
def test_bad_input_is_one_line_and_status_2(command, arguments, says):
    status, out, err = command(*arguments)
    assert status == 2
    assert out == ""
    assert says in err
    assert err.startswith("anyorder: ")
    assert err.count("\n") == 1
