"""Output files that a stopped run continues: what an earlier run left is never taken for this one's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anyorder.errors import AnyorderError
from anyorder.files.journal import Journal, Results, same_json

TEXTS = ["a", "b", "c", "d"]


def lines(texts: list[str], by: int) -> list[str]:
    return [json.dumps({"text": text, "by": by}) for text in texts]


def results(path: Path, by: int) -> Results:
    return Results(path, {"by": by}, same_json)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """The output of a first run."""
    out = tmp_path / "out.jsonl"
    first = results(out, 1)
    first.check(overwrite=False)
    first.begin()
    first.write(lines(TEXTS, 1))
    first.finish()
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]
    return out


def test_a_run_that_replaces_another_and_is_killed_before_its_first_window(finished: Path) -> None:
    """The old output stays until there is a new one, and resuming does not take it for its own."""
    second = results(finished, 2)
    second.check(overwrite=True)
    second.begin()  # and then it is killed
    assert finished.read_text().splitlines() == lines(TEXTS, 1)
    third = results(finished, 2)
    third.resume(iter(TEXTS), 2, 4)
    assert third.written == 0
    third.write(lines(TEXTS[:2], 2))  # killed again
    fourth = results(finished, 2)
    texts = iter(TEXTS)
    fourth.resume(texts, 2, 4)
    assert fourth.written == 2
    fourth.write(lines(list(texts), 2))
    fourth.finish()
    assert finished.read_text().splitlines() == lines(TEXTS, 2)
    assert [p.name for p in finished.parent.iterdir()] == ["out.jsonl"]


def test_a_run_that_fails_before_it_begins_leaves_all_as_it_was(finished: Path) -> None:
    results(finished, 2).check(overwrite=True)  # and then the model cannot be loaded
    assert finished.read_text().splitlines() == lines(TEXTS, 1)
    assert [p.name for p in finished.parent.iterdir()] == ["out.jsonl"]


def test_a_damaged_note_and_a_damaged_line(finished: Path) -> None:
    note = finished.with_name("out.jsonl.unfinished")
    for damage in (b"{", b"\xff\xff", b"3"):
        note.write_bytes(damage)
        with pytest.raises(AnyorderError, match="is damaged"):
            results(finished, 1).resume(iter(TEXTS), 2, 4)
    note.write_text('{"by": 1}\n')
    finished.write_bytes(b'{"text": "\xff"}\n' * 4)
    with pytest.raises(AnyorderError, match="belongs to another text"):
        results(finished, 1).resume(iter(TEXTS), 2, 4)


@pytest.mark.parametrize("content", ['{"settings": 3}\n', "[]\n", '{"settings": {}}\n[1]\n', "\n", "x\n"])
def test_what_is_no_journal(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    with pytest.raises(AnyorderError, match="is not a journal"):
        Journal(path, {}, resume=True)


@pytest.mark.parametrize("torn", ["", '{"settings": {"by'])
def test_a_journal_killed_before_its_first_line(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(torn)
    with pytest.raises(AnyorderError, match="exists"):
        Journal(path, {"by": 1}, resume=False)
    Journal(path, {"by": 1}, resume=True).add({"one": 1})
    assert Journal(path, {"by": 1}, resume=True).records == [{"one": 1}]
