from __future__ import annotations

import json
import lzma
import time
from collections import Counter

import pytest
import torch

from anyorder.joints import METHODS, derive, pair_tables
from anyorder.joints.measures import score_pair
from running import anyorder
from warm import started

LINES = [
    "the old man sat on the mat .",
    "",
    "a cat",
    "man",
    "the quick brown fox ran over the lazy dog .",
    "she opened the door and walked into the garden .",
    "the king gave the queen a book .",
    "they saw two birds in the big tree .",
    "word " * 100,
    "his dog is not good .",
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "lines.txt.xz"
    path.write_bytes(lzma.compress("\n".join(LINES).encode()))
    return path


@pytest.fixture
def command(monkeypatch, capsys, tiny_checkpoint, data, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        first = ("evaluate", "pairwise", "-m", str(tiny_checkpoint), "--data", str(data))
        return anyorder(monkeypatch, capsys, *first, *arguments)

    return run


def timeless(out):
    """The JSON output without the seconds."""
    found = json.loads(out)
    found["settings"].pop("seconds")
    return found


def test_table_one(command, tiny_lm, tmp_path):
    status, out, _ = command("--scheme", "contiguous", "--examples", "4", "--json")
    assert status == 0
    found = json.loads(out)
    assert [row["method"] for row in found["rows"]] == ["mlm", "mrf-logit", "mrf", "hcb", "ag"]
    assert found["settings"]["examples"] == 4
    assert found["settings"]["skipped"] == {"empty": 1, "short": 1, "long": 1}
    # One example of the journal, worked out directly.
    header, *records = [json.loads(line) for line in (tmp_path / "runs/pairwise-lines-contiguous.jsonl").open()]
    assert header["settings"]["scheme"] == "contiguous"
    record = records[2]
    tokens = tiny_lm.tokenizer(LINES[record["line"] - 1], return_tensors="pt")["input_ids"][0]
    a, b = record["positions"]
    assert b == a + 1
    tables = pair_tables(tiny_lm.conditionals, tokens, a, b)
    expected = score_pair(tables, {m: derive(tables, m) for m in METHODS}, (int(tokens[a]), int(tokens[b])))
    for method in METHODS:
        assert record["scores"][method] == pytest.approx(expected[method].to_dict(), rel=1e-4, abs=1e-6)
    nll = torch.tensor([r["scores"]["ag"]["p_nll"] for r in records], dtype=torch.float64)
    assert found["rows"][-1]["p_ppl"]["value"] == pytest.approx(float((nll.mean() / 2).exp()))
    assert sum(d["examples"] for d in found["distance"]) == 4


def test_a_torn_line_is_dropped_and_the_table_is_the_same(command, tmp_path):
    _, whole, _ = command("--examples", "5", "--json", "--out", "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    for cut in ([*lines[:3], lines[3][:20]], lines[:1], lines):
        (tmp_path / "part.jsonl").write_bytes(b"".join(cut))
        status, out, _ = command("--examples", "5", "--json", "--out", "part.jsonl", "--resume")
        assert status == 0
        resumed, expected = timeless(out), timeless(whole)
        assert resumed.pop("settings")["rows_asked"] == expected.pop("settings")["rows_asked"]
        assert resumed == expected


def test_a_killed_run_goes_on(tmp_path, data, tiny_checkpoint, command):
    journal = tmp_path / "killed.jsonl"
    arguments = ["--scheme", "random", "--examples", "7", "--out", str(journal)]
    line = ["evaluate", "pairwise", "--data", data, "-m", tiny_checkpoint]
    process = started(*line, *arguments, said=tmp_path / "said.txt")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 3):
        time.sleep(0.005)
    process.kill()
    process.join()
    assert journal.read_bytes().count(b"\n") >= 3
    status, resumed, _ = command(*arguments, "--resume", "--json")
    assert status == 0
    _, whole, _ = command("--scheme", "random", "--examples", "7", "--out", "whole.jsonl", "--json")
    assert timeless(resumed)["rows"] == timeless(whole)["rows"]


def test_a_damaged_record_is_named(command, tmp_path):
    assert command("--examples", "2", "--out", "run.jsonl")[0] == 0
    journal = tmp_path / "run.jsonl"
    sound = journal.read_text()
    for name in ("g_kl", "distance", "rows", "seconds"):
        journal.write_text(sound.replace(f'"{name}"', '"another"', 1))
        status, _, err = command("--examples", "2", "--out", "run.jsonl", "--resume", "--json")
        assert status == 2
        assert "example 1 of run.jsonl is damaged: start over with --overwrite" in err


def test_another_setting_does_not_mix_with_an_earlier_run(command, tmp_path):
    assert command("--examples", "2", "--out", "run.jsonl")[0] == 0
    status, _, err = command("--examples", "2", "--out", "run.jsonl", "--resume", "--scheme", "contiguous")
    assert status == 2
    assert "begun with scheme 'random'" in err
    status, _, err = command("--examples", "3", "--out", "run.jsonl", "--resume", "--dtype", "bfloat16")
    assert status == 2, "half of it rounded, half not"
    assert "begun with dtype 'float32', not 'bfloat16'" in err
    # More examples of the same run are welcome; a finished journal is not lost by accident.
    assert command("--examples", "3", "--out", "run.jsonl", "--resume")[0] == 0
    status, _, err = command("--examples", "1", "--out", "run.jsonl")
    assert (status, len((tmp_path / "run.jsonl").read_text().splitlines())) == (2, 4)
    assert "--resume" in err
    assert "--overwrite" in err
    assert command("--examples", "1", "--out", "run.jsonl", "--overwrite")[0] == 0
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 2
    (tmp_path / "other.jsonl").write_text("a line\nhalf a line")
    status, _, err = command("--out", "other.jsonl", "--resume")
    assert status == 2
    assert "not a journal" in err
    assert (tmp_path / "other.jsonl").read_text() == "a line\nhalf a line"


def test_syntactic_distance_from_a_finished_journal(command, monkeypatch, tmp_path, tiny_lm):
    tokens = pytest.importorskip("spacy.tokens", reason="the extra syntax is not installed")
    vocab = pytest.importorskip("spacy.vocab", reason="the extra syntax is not installed")

    def chain(text):
        """A parse in which each word is the head of the next one."""
        words = text.split()
        return tokens.Doc(
            vocab.Vocab(), words, heads=[max(0, i - 1) for i in range(len(words))], deps=["x"] * len(words)
        )

    _, plain, _ = command("--examples", "5", "--method", "mlm", "--json", "--out", "run.jsonl")
    monkeypatch.setattr("anyorder.tasks.syntax.load_parser", lambda name: chain)
    asked = ("--distance", "syntactic", "--parser", "mine", "--plot", "syntax.png")
    status, out, _ = command("--examples", "5", "--method", "mlm", "--json", "--out", "run.jsonl", "--resume", *asked)
    assert status == 0
    found = json.loads(out)
    assert found["settings"]["parser"] == "mine"
    assert found["rows"] == json.loads(plain)["rows"]
    assert sum(one["examples"] for one in found["distance"]) == 5
    assert (tmp_path / "syntax.png").stat().st_size > 5000
    expected = Counter()
    for record in map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines()[1:]):
        words = tiny_lm.tokenizer(
            LINES[record["line"] - 1]
        ).word_ids()  # arcs of the chain are words from one to the other
        expected[words[record["positions"][1]] - words[record["positions"][0]]] += 1
    assert {one["distance"]: one["examples"] for one in found["distance"]} == expected
    status, _, err = command("--parser", "mine", "--out", "other.jsonl")
    assert (status, err.count("\n")) == (2, 1)
    assert "--distance syntactic" in err


def test_three_tokens_on_a_support(command):
    status, out, _ = command("--size", "3", "--support", "5", "--examples", "2", "--json", "--scheme", "contiguous")
    assert status == 0
    found = json.loads(out)
    assert [row["method"] for row in found["rows"]] == ["mlm", "mrf-logit", "mrf", "hcb", "ag"]
    best = min(found["rows"], key=lambda row: row["a_kl"]["value"])
    assert best["method"] == "ag"


def test_adaptive_support_measures_no_mean_over_all_tokens(command, tmp_path):
    status, out, _ = command("--tail", "0.01", "--examples", "2", "--json", "--plot", "distance.png")
    assert status == 0
    found = json.loads(out)
    assert [row["method"] for row in found["rows"]] == ["mlm", "ag"]
    assert found["rows"][0]["a_kl"] is None
    assert found["rows"][0]["g_kl"]["value"] > 0
    assert (tmp_path / "distance.png").read_bytes().startswith(b"\x89PNG")


def test_the_plain_table_names_what_was_left_out(command):
    status, out, _ = command("--examples", "2", "--method", "ag", "--method", "mlm")
    assert status == 0
    assert "lines left out: 1 empty, 1 short, 1 long" in out
    assert out.index("mlm") < out.index("ag ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheme", "contigous"], "did you mean 'contiguous'?"),
        (["--method", "gibbs"], "unknown method"),
        (["--tail", "0.1", "--method", "mrf"], "an adaptive support is for ag and mlm"),
        (["--tail", "0.1", "--size", "3"], "--size 2"),
        (["--plot", "no/such/folder/distance.png"], "no folder"),
        (["--out", "/proc/none/x.jsonl"], "choose another place"),
    ],
)
def test_bad_input_is_one_line(command, arguments, message):
    status, _, err = command(*arguments)
    assert status == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(("content", "message"), [("", "no line with 2 tokens"), ("man\n\n", "1 empty, 1 too short")])
def test_files_without_an_example(command, tmp_path, content, message):
    (tmp_path / "poor.txt").write_text(content)
    status, _, err = command("--data", str(tmp_path / "poor.txt"))
    assert status == 2
    assert message in err
