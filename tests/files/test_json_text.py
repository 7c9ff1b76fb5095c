"""JSON that is nested too deeply is refused in a sentence by everything that reads JSON from outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from anyorder.chains.worlds import make_world
from anyorder.errors import AnyorderError
from anyorder.files.journal import Journal, Results, same_json
from anyorder.files.json_text import parse_json
from anyorder.files.reading import Source
from anyorder.metrics.curve import NAME, read_curve
from anyorder.studies.curves import read_curve as read_learning_curve
from anyorder.studies.finetune import pretraining_recipe
from anyorder.studies.understanding.squad_files import read_squad

DEEP = "[" * 100_000 + "\n"


@pytest.mark.parametrize("text", [DEEP, DEEP.encode(), '{"a": ' * 100_000, "[1"])
def test_it_is_a_mistake_in_the_text(text: str | bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json(text)


def test_what_is_sound_is_read() -> None:
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]}


def resume(path: Path) -> None:
    """A file of results whose note is nested too deeply."""
    path.write_text("a\n")
    path.with_name(path.name + ".unfinished").write_text(DEEP)
    Results(path, {}).resume(iter(["a"]), 1, 1)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("texts.jsonl", lambda path: list(Source(str(path)))),
        ("journal.jsonl", lambda path: Journal(path, {}, resume=True)),
        ("results.jsonl", resume),
        (NAME, lambda path: read_curve(path.parent)),
        ("metrics.jsonl", lambda path: list(read_learning_curve("run", path))),
        ("train-v2.0.json", read_squad),
        ("world.json", lambda path: make_world(str(path))),
        ("recipe.json", lambda path: pretraining_recipe(path.parent)),
    ],
)
def test_every_reader_says_so(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    (tmp_path / name).write_text(DEEP)
    with pytest.raises(AnyorderError) as refusal:
        read(tmp_path / name)
    assert "\n" not in str(refusal.value)


def test_a_line_that_is_no_json_is_no_answer() -> None:
    assert not same_json(DEEP, "a")
