from __future__ import annotations

import json

import pytest

from running import anyorder


@pytest.fixture
def command(monkeypatch, capsys, tiny_checkpoint):
    def run(*arguments):
        return anyorder(monkeypatch, capsys, "compatibility", "-m", str(tiny_checkpoint), *arguments)

    return run


def test_every_adjacent_pair_of_a_text(command):
    status, out, _ = command("the old man sat .", "--top", "6", "--json")
    assert status == 0
    found = json.loads(out)
    assert [row["gold"] for row in found["rows"]] == [["the", "old"], ["old", "man"], ["man", "sat"], ["sat", "."]]
    assert all(row["tokens"] == 6 and row["rectangles"] == 225 for row in found["rows"])
    # A random network contradicts itself.
    assert found["summary"]["max"] == max(row["max"] for row in found["rows"]) > 0.01
    assert found["summary"]["residual"] > 0


def test_special_tokens_count_only_if_asked_for(command):
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    for asked in (False, True):
        # Of so many tokens some are special, wherever they are not left out.
        status, out, _ = command("the ___ man ___ .", "--top", "97", "--json", *["--special-tokens"] * asked)
        assert status == 0
        found = json.loads(out)
        assert found["settings"]["special_tokens"] is asked
        assert found["rows"][0]["tokens"] == 97 - (0 if asked else len(special))
        assert asked or not special & set(found["rows"][0]["worst"])
    assert "left out (--special-tokens)" in command("the ___ man ___ .", "--top", "4")[1]


def test_two_blanks_and_a_file(command, tmp_path):
    status, out, _ = command("the ___ man sat on the ___ .", "--json")
    assert status == 0
    assert [(row["a"], row["b"]) for row in json.loads(out)["rows"]] == [(2, 7)]
    lines = tmp_path / "lines.txt"
    lines.write_text("the old man sat .\n\na cat\nthe king ran .\n")
    status, out, _ = command(str(lines), "--examples", "2")
    assert status == 0
    assert "not those of any joint" in out.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["man"], "no two adjacent tokens"),
        (["the ___ sat"], "one blank"),
        (["a b", "--scheme", "rnd"], "unknown scheme"),
    ],
)
def test_bad_input_is_one_line(command, arguments, message):
    status, _, err = command(*arguments)
    assert status == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
