from __future__ import annotations

import json

import pytest

from running import anyorder

TEXT = "the ___ man ___ on the mat ."


@pytest.fixture
def command(monkeypatch, capsys, tiny_checkpoint):
    def run(*arguments):
        return anyorder(monkeypatch, capsys, "joint", "-m", str(tiny_checkpoint), *arguments)

    return run


def test_json(command, tiny_lm):
    status, out, _ = command(TEXT, "--top", "3", "--json")
    assert status == 0
    methods = json.loads(out)["methods"]
    assert json.loads(out)["special_tokens"] is False
    assert set(methods) == {"mlm", "mrf", "mrf-logit", "hcb", "ag"}
    expected = tiny_lm.joint(TEXT, "ag").pairs(3)
    assert [(p["a"], p["b"]) for p in methods["ag"]["pairs"]] == [(a, b) for a, b, _ in expected]
    assert [p["prob"] for p in methods["ag"]["pairs"]] == pytest.approx([p for _, _, p in expected])
    for found in methods.values():
        assert len(found["marginals"]["a"]) == len(found["marginals"]["b"]) == 3
        assert found["disagreement"]["a_kl"] >= 0


def test_one_method_as_a_table_and_a_picture(command, tmp_path):
    picture = tmp_path / "heat.png"
    status, out, _ = command(TEXT, "--method", "hcb", "--top", "2", "--plot", str(picture))
    assert status == 0
    assert out.startswith("hcb")
    assert "mrf" not in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_special_tokens_as_in_the_paper(command, tiny_lm):
    status, out, _ = command(TEXT, "--method", "ag", "--special-tokens", "--json")
    assert status == 0
    assert json.loads(out)["special_tokens"] is True
    expected = tiny_lm.joint(TEXT, "ag", special_tokens=True).pairs(1)[0][2]
    assert json.loads(out)["methods"]["ag"]["pairs"][0]["prob"] == pytest.approx(expected)
    assert "Special tokens: left out (--special-tokens)." in command(TEXT, "--method", "mlm")[1]


def test_adaptive(command):
    status, out, _ = command(TEXT, "--tail", "0.01", "--json")
    assert status == 0
    methods = json.loads(out)["methods"]
    assert set(methods) == {"mlm", "ag"}
    assert methods["ag"]["outside_error"] <= 0.01
    assert methods["ag"]["rows_asked"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["the ___ sat"], "one blank"),
        (["the ___ ___ ___ sat"], "the text has 3"),
        ([TEXT, "--method", "agg"], "did you mean 'ag'?"),
        ([TEXT, "--tail", "2"], "below 1"),
        ([TEXT, "--tail", "0.1", "--method", "mrf"], "leave out --tail"),
        ([TEXT, "--plot", "no/such/folder/heat.png"], "no folder"),
        ([TEXT, "--plot", "heat.doc"], "ends in .png"),
        (["the snowman ___ ___"], "cannot represent 'snowman'"),
    ],
)
def test_bad_input_is_one_line(command, arguments, message):
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_too_large_for_memory_is_said_before_starting(command, monkeypatch):
    from anyorder import memory

    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    status, _, err = command(TEXT)
    assert status == 2
    assert "--tail 1e-3" in err
