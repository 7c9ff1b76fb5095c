from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

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


def test_plain_output_is_one_line_per_completion(command):
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


def test_alone_shows_what_each_blank_would_be_on_its_own(command, tiny_lm):
    """Beside the joint completions: log q of each blank with all of them masked, as the model itself says it."""
    text = "The ___ sat on the ___."
    status, out, _ = command(text, "--top", "3", "--alone", "--any-pieces", "--special-tokens", "--json")
    assert status == 0
    found = json.loads(out)
    options = {"top": 3, "whole_words": False, "special_tokens": True}
    assert found["jointly"] == [c.to_dict() for c in tiny_lm.fill(text, **options)]
    mask = tiny_lm.conditionals.mask_id
    row = torch.tensor(tiny_lm.tokenizer(text.replace("___", tiny_lm.tokenizer.mask_token))["input_ids"])[None]
    places = (row[0] == mask).nonzero().T
    best = tiny_lm.conditionals(row, places)[0].exp().topk(3)
    for blank, values in zip(found["alone"]["blanks"], best.values.tolist(), strict=True):
        assert [one["prob"] for one in blank] == pytest.approx(values, rel=1e-4)
    row[0, places[0]] = best.indices[:, 0]
    words = tiny_lm.tokenizer.convert_ids_to_tokens(row[0].tolist())
    assert all(words[p] in found["alone"]["text"] for p in places[0].tolist())
    status, out, _ = command(text, "--top", "3", "--alone")
    lines = out.splitlines()
    assert (status, lines[0]) == (0, "Each blank alone:")
    assert [line.split()[0] for line in lines[1:3]] == ["1", "2"]
    assert "All blanks jointly:" in lines


def test_one_blank_alone_is_one_blank_jointly(command):
    """One probability, however few of the vocabulary's tokens may stand there."""
    found = json.loads(command("The old ___ sat on it.", "--top", "3", "--alone", "--json")[1])
    (alone,) = found["alone"]["blanks"]
    assert [one["token"] for one in alone] == [one["fills"][0] for one in found["jointly"]]
    assert [one["prob"] for one in alone] == pytest.approx([math.exp(one["log_prob"]) for one in found["jointly"]])


def test_foreign_options_are_refused_before_a_model_is_loaded(command, monkeypatch):
    monkeypatch.setattr("anyorder.load", lambda *_, **__: pytest.fail("a model was loaded"))
    status, out, err = command("The ___ sat.", "--samples", "8")
    assert (status, out) == (2, "")
    assert err == "anyorder: the method 'beam' has no samples: leave it out, or choose --method sample\n"


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


LINES = ["The ___ sat on the ___.", "", "he opened the ___", "the ___{1-2} ran", "___ fox"] * 3


def test_a_file_gives_a_line_per_text_in_order(command, tiny_lm, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(LINES) + "\n")
    status, out, err = command("--file", str(tmp_path / "texts.txt"), "--top", "2")
    assert (status, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["text"] for row in rows] == LINES
    for row in rows:
        alone = tiny_lm.fill(row["text"], top=2) if row["text"] else []
        assert [c["text"] for c in row["completions"]] == [c.text for c in alone]
        for c, expected in zip(row["completions"], alone, strict=True):
            assert c["log_prob"] == pytest.approx(expected.log_prob, abs=1e-5)
            assert c.keys() == expected.to_dict().keys()


def test_a_column_of_a_file(command, tmp_path):
    plain, tsv, jsonl = tmp_path / "texts.txt", tmp_path / "texts.tsv", tmp_path / "texts"
    plain.write_text("\n".join(LINES) + "\n")
    tsv.write_text("id\tsentence\n" + "".join(f"{i}\t{line}\n" for i, line in enumerate(LINES)))
    jsonl.write_text("".join(json.dumps({"sentence": line}) + "\n" for line in LINES))
    expected = command("--file", str(plain))
    assert expected[0] == 0
    assert command("--file", str(tsv), "--column", "sentence") == expected
    assert command("--file", str(jsonl), "--column", "sentence", "--format", "jsonl") == expected
    status, _, err = command("--file", str(tsv))
    assert (status, "Choose one with --column" in err) == (2, True)
    assert command("a ___", "--column", "sentence")[0] == 2


def test_a_killed_run_goes_on_to_the_same_bytes(command, tmp_path, monkeypatch):
    monkeypatch.setattr("anyorder.cli.files.WINDOW", 4)
    source, whole, cut = tmp_path / "texts.txt", tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    source.write_text("\n".join(LINES) + "\n")
    assert command("--file", str(source), "--out", str(whole))[0] == 0

    import anyorder.files.journal as journal

    written = journal.Results.write

    def killed(self, lines):
        if self.written == 8:
            with self.path.open("a") as file:
                file.write(lines[0][:20])  # a torn line, as a kill would leave it
            raise KeyboardInterrupt
        written(self, lines)

    monkeypatch.setattr(journal.Results, "write", killed)
    assert command("--file", str(source), "--out", str(cut))[0] == 130
    monkeypatch.setattr(journal.Results, "write", written)
    status, _, err = command("--file", str(source), "--out", str(cut))
    assert status == 2
    assert "--resume" in err
    assert command("--file", str(source), "--out", str(cut), "--top", "3", "--resume")[0] == 2
    assert command("--file", str(source), "--out", str(cut), "--resume")[0] == 0
    assert cut.read_bytes() == whole.read_bytes()
    assert not cut.with_name("cut.jsonl.unfinished").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "either a text or --file"),
        (["the ___", "--file", "x"], "either a text or --file"),
        (["the ___", "--out", "x"], "--file"),
        (["--file", "x", "--resume"], "--out"),
        (["--file", "nowhere.txt"], "no file"),
        (["--file", "x", "--alone"], "--alone is for one text"),
    ],
)
def test_a_text_or_a_file(command, arguments, says):
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_bad_line_of_a_file_is_named(command, tmp_path):
    (tmp_path / "texts.txt").write_text("the ___\n\nthe cat\n")
    status, out, err = command("--file", str(tmp_path / "texts.txt"))
    assert (status, out) == (2, "")
    assert err.startswith("anyorder: text 3: the text has no blank")
