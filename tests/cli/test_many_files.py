"""Files of texts in and out: several at once, Parquet, plain texts, stopped runs, and errors in one line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anyorder.cli import app, files
from anyorder.errors import AnyorderError
from anyorder.files.journal import Results

pyarrow = pytest.importorskip("pyarrow", reason="the extra cluster is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="the extra cluster is not installed")

TEXTS = ["the ___ sat on the mat", "", "a ___ and a ___", "the old ___ walked", "she ___ the book"]


@pytest.fixture(autouse=True)
def one_model(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands load their model once for all tests, and answer two texts at a time."""
    monkeypatch.setattr(files, "load_model", lambda *_, **__: tiny_lm)
    monkeypatch.setattr(files, "WINDOW", 2)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def table(path: Path, texts: list[str | None], column: str = "text") -> Path:
    parquet.write_table(pyarrow.table({"id": list(range(len(texts))), column: texts}), path)
    return path


def lines(path: Path, texts: list[str] = TEXTS) -> Path:
    path.write_text("".join(text + "\n" for text in texts))
    return path


def said(value: Any) -> Any:
    """A row of a table as JSON has it: what is null was not said."""
    if isinstance(value, dict):
        return {name: said(one) for name, one in value.items() if one is not None}
    return [said(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "command", ["fill --top 2 --file", "generate --samples 2 --seed 4 --file", "score --per-token"]
)
def test_a_table_holds_what_the_lines_say(command: str, tmp_path: Path) -> None:
    plain = [text.replace("___", "cat") for text in TEXTS] if command.startswith("score") else TEXTS
    words = command.split()
    run(*words, lines(tmp_path / "in.txt", plain), "--out", tmp_path / "a.jsonl")
    run(*words, table(tmp_path / "in.parquet", [text or None for text in plain]), "--out", tmp_path / "b.parquet")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == plain
    assert said(parquet.read_table(tmp_path / "b.parquet").to_pylist()) == said(rows)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "b.parquet", "in.parquet", "in.txt"]


def test_a_translation_fits_its_table_too(tmp_path: Path) -> None:
    """Its model is another one; its fields are those of its lines."""
    from anyorder.show.answers import ANSWERING, translation_line
    from anyorder.tasks.translate import Translation

    one = Translation("ein Hund", "a dog", (3, 4), -1.5, -0.5, 2, ("_ _", "a dog"), ("dog",))
    assert list(json.loads(translation_line(one))) == list(ANSWERING["translate"].fields)


def test_plain_text_out_is_the_best_answer_per_line(tmp_path: Path) -> None:
    run("fill", "--file", lines(tmp_path / "in.txt"), "--out", tmp_path / "out.txt")
    run("fill", "--file", tmp_path / "in.txt", "--out", tmp_path / "out.jsonl")
    rows = [json.loads(line)["completions"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert (tmp_path / "out.txt").read_text().splitlines() == [row[0]["text"] if row else "" for row in rows]


def test_generating_for_a_file_gives_each_prompt_what_it_gets_alone(tiny_lm: Any, tmp_path: Path) -> None:
    run("generate", "--file", lines(tmp_path / "in.txt"), "--samples", 2, "--seed", 4, "--out", tmp_path / "a.jsonl")
    for line, prompt in zip((tmp_path / "a.jsonl").read_text().splitlines(), TEXTS, strict=True):
        row = json.loads(line)
        alone = tiny_lm.generate(prompt, samples=2, seed=4) if prompt else []
        assert row["text"] == prompt
        assert [one["text"] for one in row["generations"]] == [one.text for one in alone]


def test_several_files_are_one_input_or_each_its_own(tmp_path: Path) -> None:
    table(tmp_path / "b.parquet", [*TEXTS[:3]])
    table(tmp_path / "a.parquet", [*TEXTS[3:]])
    pattern = tmp_path / "*.parquet"
    run("fill", "--file", pattern, "--out", tmp_path / "all.jsonl")
    texts = [json.loads(line)["text"] for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert texts == TEXTS[3:] + TEXTS[:3]  # by the files' names
    run("fill", "--file", pattern, "--out", f"{tmp_path / 'filled'}/")
    assert sorted(p.name for p in (tmp_path / "filled").iterdir()) == ["a.parquet", "b.parquet"]
    assert parquet.read_table(tmp_path / "filled" / "b.parquet")["text"].to_pylist() == TEXTS[:3]
    both = run("score", lines(tmp_path / "a.txt", ["a cat"]), lines(tmp_path / "b.txt", ["a dog"]), "--json")
    assert [json.loads(line)["text"] for line in both.splitlines()] == ["a cat", "a dog"]


def test_a_table_whose_run_was_stopped_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, whole, cut = lines(tmp_path / "in.txt"), tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    run("fill", "--file", source, "--out", whole)
    written = Results.write
    with monkeypatch.context() as patch:

        def write(self: Results, window: list[str]) -> None:
            if self.written >= 2:
                raise KeyboardInterrupt
            written(self, window)

        patch.setattr(Results, "write", write)
        with pytest.raises(BaseException):  # noqa: B017, PT011 - click's own, for an interrupt
            run("fill", "--file", source, "--out", cut)
    assert not cut.exists()
    with pytest.raises(AnyorderError, match="unfinished: continue it with --resume"):
        run("fill", "--file", source, "--out", cut)
    run("fill", "--file", source, "--out", cut, "--resume")
    assert cut.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.parquet", "in.txt", "whole.parquet"]
    run("fill", "--file", source, "--out", cut, "--resume")  # finished: nothing is done
    assert cut.read_bytes() == whole.read_bytes()
    lines(source, [*TEXTS[:4], "another ___"])
    with pytest.raises(AnyorderError, match=r"result 5 in .* belongs to another text"):
        run("fill", "--file", source, "--out", cut, "--resume")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ("fill --file in.parquet --column txt", "no column 'txt': choose one of id, text with --column"),
        ("fill --file in.parquet --column id", "holds 0, which is not a text"),
        ("fill --file broken.parquet", "is no whole Parquet file"),
        ("fill --file none*.txt", "no file matches 'none"),
        ("fill --file in.parquet --out there.jsonl", "there.jsonl exists: replace it with --overwrite"),
        ("fill --file */in.parquet --out out/", "two inputs are called 'in'"),
        ("fill --file in.parquet --workers 2", "add --engine ray"),
        ("fill --file in.parquet --engine spark", "engine"),
        ("generate --prompt a --file in.parquet", "are for one text"),
        ("generate --out a.jsonl", "name their file with --file"),
        ("score in.parquet --out scores.txt", "answers with numbers"),
        ("score in.parquet 'a cat'", "is a file and 'a cat' is not"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    arguments: str, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("one", "two"):
        Path(folder).mkdir()
        table(Path(folder) / "in.parquet", ["a ___"])
    table(Path("in.parquet"), ["a ___"])
    Path("broken.parquet").write_bytes(b"PAR1 and no more")
    Path("there.jsonl").write_text("{}\n")
    with pytest.raises(AnyorderError, match=match):
        run(*shlex.split(arguments))
