"""`anyorder score`: formats, errors in one line, and runs that are killed and go on."""

from __future__ import annotations

import gzip
import json
import lzma
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.cli import files as command
from anyorder.errors import AnyorderError
from tiny import tiny_checkpoint_of
from warm import started

LINES = ["the cat sat on the mat.", "", "the old king walked to the river", "a dog"]


@pytest.fixture(autouse=True)
def one_model(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command loads its model once for all tests."""
    monkeypatch.setattr(command, "load_model", lambda *_, **__: tiny_lm)


def run(*args: object, stdin: str | bytes | None = None) -> str:
    result = CliRunner().invoke(app, ["score", *map(str, args)], input=stdin)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_jsonl_has_one_result_per_line_in_input_order(tiny_lm: Any, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in run(write(tmp_path / "in.txt", LINES), "--json").splitlines()]
    assert [row["text"] for row in rows] == LINES
    for row, expected in zip(rows, tiny_lm.score(LINES), strict=True):
        assert list(row) == ["text", "method", "log_prob", "standard_error", "tokens", "reading"]
        assert row["log_prob"] == pytest.approx(expected.log_prob, abs=1e-5)
    terms = json.loads(run("-", "--json", "--per-token", stdin="a dog\n"))["per_token"]
    assert [term["token"] for term in terms] == ["a", "dog"]


def test_tsv_is_the_form_for_reading(tmp_path: Path) -> None:
    header, *rows = run(write(tmp_path / "in.txt", LINES), "--method", "bound").splitlines()
    assert header.split("\t") == ["log_prob", "standard_error", "tokens", "text"]
    assert [row.split("\t")[3] for row in rows] == LINES
    assert float(rows[0].split("\t")[1]) > 0
    assert rows[1].split("\t")[:3] == ["0.000000", "0.000000", "0"]


def test_every_input_form_gives_the_same_result(tmp_path: Path) -> None:
    expected = run("-", "--json", stdin="\n".join(LINES) + "\n")
    plain = write(tmp_path / "a.txt", LINES)
    tsv = write(tmp_path / "a.tsv", ["id\tsentence", *(f"{i}\t{line}" for i, line in enumerate(LINES))])
    bare = write(tmp_path / "b.tsv", [f"{i}\t{line}" for i, line in enumerate(LINES)])
    jsonl = write(tmp_path / "a.jsonl", [json.dumps({"sentence": line}) for line in LINES])
    windows_style = tmp_path / "w.txt"
    windows_style.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(LINES).encode())
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(plain.read_bytes()))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(jsonl.read_bytes()))
    column = ["--column", "sentence"]
    assert run(plain, "--json") == expected
    assert run(windows_style, "--json") == expected
    assert run(tmp_path / "a.txt.xz", "--json") == expected
    assert run(tsv, "--json", *column) == expected
    assert run(bare, "--json", "--column", 2) == expected
    assert run(jsonl, "--json", *column) == expected
    assert run(tmp_path / "a.jsonl.gz", "--json", *column) == expected
    assert run("-", "--json", "--format", "jsonl", *column, stdin=jsonl.read_bytes()) == expected


def test_texts_with_tabs_and_newlines_stay_on_one_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [json.dumps({"text": "the\tcat\nsat"})])
    assert run(source).splitlines()[1].split("\t")[2] == "the\\tcat\\nsat"


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.txt", b"fine\nbad \xff here\n", [], r"line 2 of .* is not UTF-8 \(byte 0xff at column 5\)"),
        ("a.tsv", b"id\tsentence\n1\tcat\n", [], "which column .*: id, sentence"),
        ("a.tsv", b"id\tsentence\n1\tcat\n", ["--column", "text"], "no column 'text': choose one of id, sentence"),
        ("a.tsv", b"id\tsentence\n1\n", ["--column", "sentence"], "line 2 of .* has 1 column, not 2"),
        (
            "a.jsonl",
            b'{"sentence": "cat"}\n',
            [],
            "line 1 of .* has no 'text', only sentence: choose one with --column",
        ),
        ("a.jsonl", b'{"text": "a"}\n{"x": "a"}\n', [], "line 2 of .* has no 'text', only x"),
        ("a.jsonl", b'["a"]\n', [], "line 1 of .* is not a JSON object"),
        ("a.jsonl", b'{"text": 3}\n', [], "holds 3, which is not a text"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', [], "half a surrogate pair"),
        ("a.jsonl", b"cat\n", [], "line 1 of .* is not JSON"),
        ("a.txt", b"cat\n", ["--column", "text"], "TSV or JSONL"),
        ("a.txt", b"cat\n", ["--method", "plll"], "did you mean 'pll'"),
        ("a.txt", b"cat\n", ["--format", "csv"], "unknown format"),
        ("a.txt.xz", b"not compressed", [], "is damaged"),
        ("a.txt.gz", b"not compressed", [], "is damaged"),
        ("a.txt", b"cat\n", ["--resume"], "name it with --out"),
        ("a.txt", b"cat\n" * 3 + b"cat " * 100, ["--strict"], "text 4 has 100 tokens"),
        ("a.txt", b"the [MASK] sat\n", [], r"text 1 contains \[MASK\]"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, name: str, content: bytes, options: list[str], message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    out = [] if "--resume" in options else ["--out", tmp_path / "out.jsonl"]
    with pytest.raises(AnyorderError, match=message) as caught:
        run(path, *options, *out)
    assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_missing_files_are_named() -> None:
    with pytest.raises(AnyorderError, match=r"no file 'nowhere\.txt'"):
        run("nowhere.txt")


def test_long_lines_are_windowed_and_said_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["score", "-", "--json"], input="cat " * 100 + "\na dog\n")
    assert json.loads(result.stdout.splitlines()[0])["windows"] == 3
    assert "windows" not in json.loads(result.stdout.splitlines()[1])
    assert "1 text was longer than the model" in result.stderr


def many(n: int) -> list[str]:
    words = ["the", "cat", "dog", "king", "queen", "sat", "ran", "on", "in", "garden", "river"]
    return [" ".join(words[(i * 7 + j * j) % len(words)] for j in range(i % 9)) for i in range(n)]


@pytest.mark.parametrize("suffix", [".jsonl", ".tsv"])
def test_a_run_cut_anywhere_resumes_to_the_same_bytes(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "WINDOW", 8)
    source = write(tmp_path / "in.txt", many(30))
    whole = tmp_path / f"whole{suffix}"
    run(source, "--method", "bound", "--out", whole)
    data = whole.read_bytes()
    assert len(data.splitlines()) == 30 + (suffix == ".tsv")
    cut = tmp_path / f"cut{suffix}"
    for size in (0, 5, len(data) // 3, len(data) // 2, len(data) - 1, len(data)):
        cut.write_bytes(data[:size])
        run(source, "--method", "bound", "--out", cut, "--resume")
        assert cut.read_bytes() == data
    cut.write_bytes(data[: len(data) // 2])
    run("-", "--method", "bound", "--out", cut, "--resume", stdin=source.read_bytes())
    assert cut.read_bytes() == data


def test_a_killed_run_resumes_to_the_same_bytes(
    tmp_path: Path, tmp_path_factory: Any, tiny_checkpoint: Path, tiny_lm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "WINDOW", 16)
    source, cut, whole = write(tmp_path / "in.txt", many(2000)), tmp_path / "cut.jsonl", tmp_path / "whole.jsonl"
    code = "import anyorder.cli as c; c.files.WINDOW = 16; c.main()"
    said = tmp_path_factory.mktemp("said") / "said.txt"
    process = started("score", source, "--out", cut, "--model", tiny_checkpoint, code=code, said=said)
    deadline = time.monotonic() + 100
    while not (cut.exists() and cut.stat().st_size > 5000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.join()
    assert 0 < len(cut.read_bytes().splitlines()) < 2000
    with pytest.raises(AnyorderError, match="unfinished: continue it with --resume"):
        run(source, "--out", cut)
    with pytest.raises(AnyorderError, match="was begun with method 'chain', not 'pll'"):
        run(source, "--out", cut, "--resume", "--method", "pll")
    run(source, "--out", cut, "--resume")
    run(source, "--out", whole)
    assert cut.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.jsonl", "in.txt", "whole.jsonl"]


def test_results_of_another_input_are_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WINDOW", 2)
    out = tmp_path / "out.jsonl"
    run("-", "--out", out, stdin="a cat\na dog\na fox\na king\n")
    for other in ("a cat\na queen\na fox\na king\n", "a cat\n"):
        with pytest.raises(AnyorderError, match="belongs to another text"):
            run("-", "--out", out, "--resume", stdin=other)


def test_an_empty_file_gives_an_empty_result(tmp_path: Path) -> None:
    source = write(tmp_path / "in.txt", [])
    run(source, "--out", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    assert run(source, "--json") == ""


def test_causal_and_broken_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import GPT2Config, GPT2LMHeadModel

    from anyorder.cli.common import load_model

    monkeypatch.setattr(command, "load_model", load_model)
    GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=50)).save_pretrained(tmp_path / "gpt")
    with pytest.raises(AnyorderError, match="is not a masked LM"):
        run("-", "--method", "pll", "--model", tmp_path / "gpt", stdin="a cat\n")
    broken = tiny_checkpoint_of("bert", tmp_path / "nan")
    weights = load_file(broken / "model.safetensors")
    weights["cls.predictions.bias"][3] = float("nan")
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AnyorderError, match="NaN"):
        run("-", "--model", broken, "--out", tmp_path / "out.jsonl", stdin="a cat\n")
    assert not (tmp_path / "out.jsonl").exists()
