from __future__ import annotations

import json
from pathlib import Path

import pytest

from running import anyorder


@pytest.fixture
def command(monkeypatch, capsys, tiny_checkpoint: Path):
    """Run `anyorder fill` with the tiny model and return (status, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        return anyorder(monkeypatch, capsys, "fill", "-m", str(tiny_checkpoint), *arguments)

    return run


def test_json_is_the_list_python_gives(command, tiny_lm):
    status, out, _ = command("The ___ sat on the ___.", "--top", "3", "--json")
    assert status == 0
    assert json.loads(out) == [c.to_dict() for c in tiny_lm.fill("The ___ sat on the ___.", top=3)]


def test_plain_output_is_a_line_a_completion(command):
    status, out, _ = command("The ___ sat on the ___.", "--top", "4", "--method", "sample", "--seed", "2")
    assert status == 0
    header, *lines = out.splitlines()
    assert header.split() == ["log_prob", "prob", "text"]
    assert len(lines) == 4
    assert all(line.endswith(".") and " The " in line for line in lines)


def test_open_lengths_show_their_probability(command):
    _, out, _ = command("The ___{1-2} sat.", "--top", "40", "--beam", "40")
    header, *lines = out.splitlines()
    assert header.split() == ["log_prob", "prob", "p(length)", "text"]
    shares = {float(line.split()[2].rstrip("%")) for line in lines}
    assert len(shares) == 1 or sum(shares) == pytest.approx(100, abs=0.2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["the cat"], "no blank"),
        ([""], "empty"),
        (["the ___{4-1}"], "contradicts"),
        (["___ " * 100], "more blanks"),
        (["the zebra ___"], "zebra"),
        (["the ___", "--method", "bean"], "did you mean 'beam'"),
        (["the ___ ___", "--order", "given:2,2"], "repeats or omits"),
        (["a" * 1_000_000 + " ___"], "characters"),
    ],
)
def test_bad_input_is_one_line_and_status_2(command, arguments, says):
    status, out, err = command(*arguments)
    assert status == 2
    assert out == ""
    assert says in err
    assert err.startswith("anyorder: ")
    assert err.count("\n") == 1
