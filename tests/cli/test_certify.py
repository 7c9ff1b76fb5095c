"""`anyorder certify` as a user meets it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.errors import AnyorderError

QUICK = ["certify", "--draws", "60", "--repeats", "3"]


def run(*arguments: str):
    return CliRunner().invoke(app, [*QUICK, *arguments])


def test_json_has_a_verdict_for_every_world():
    result = run("--sampler", "any-order", "--json")
    rows = json.loads(result.stdout)
    assert result.exit_code == 0
    assert len(rows) == 6 * 5
    assert {"sampler", "world", "tv", "floor", "ok"} <= set(rows[0])
    assert all(row["ok"] is True for row in rows)


def test_a_table_for_people_and_a_picture(tmp_path):
    picture = tmp_path / "certify.png"
    result = run("--sampler", "any-order", "--sampler", "parallel", "--plot", str(picture))
    assert result.exit_code == 0
    for word in ("hidden Markov", "any-order, random", "floor", "parallel, confidence, 2 steps", "yes"):
        assert word in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_a_sampler_is_held_against_is_in_the_table():
    result = run("--sampler", "metropolis")
    assert "metropolis, to the MRF joint" in result.stdout
    assert "the MRF joint itself" in result.stdout


def test_a_claim_that_fails_is_exit_status_1(monkeypatch):
    monkeypatch.setattr("anyorder.studies.certify.TOLERANCE", -100.0)
    result = run("--sampler", "any-order", "--json")
    assert result.exit_code == 1
    assert not any(row["ok"] for row in json.loads(result.stdout))


def test_what_is_finished_survives_an_interrupt(monkeypatch):
    from anyorder.studies import certify as module

    def interrupted(bench):
        yield next(module._any_order(bench))
        raise KeyboardInterrupt

    monkeypatch.setitem(module._STUDIES, "any-order", interrupted)
    result = run("--sampler", "any-order", "--json")
    assert len(json.loads(result.stdout)) == 1
    assert result.exit_code != 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sampler", "gibs"], "did you mean 'gibbs'"),
        (["--draws", "3"], "draws must be at least 10"),
        (["--repeats", "1"], "repeats must be at least 2"),
        (["--plot", "no/such/folder/x.png"], "no folder"),
        (["--plot", "x.xyz"], "ends in .png"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    result = CliRunner().invoke(app, ["certify", *arguments])
    assert isinstance(result.exception, AnyorderError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_picture_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "certify.png").mkdir()
    result = run("--sampler", "any-order", "--plot", str(tmp_path / "certify.png"))
    assert isinstance(result.exception, AnyorderError)
    assert "cannot write the plot" in str(result.exception)
