"""A task's examples, from GLUE's own files: plain, .gz or .xz, with a header line or without."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from anyorder.errors import AnyorderError, count
from anyorder.files.reading import Source
from anyorder.studies.understanding.tasks import GLUE, Task

ENDINGS = ("", ".xz", ".gz")
T = TypeVar("T")


class Example(NamedTuple):
    """One or two texts, and the number of their label (or their score)."""

    texts: tuple[str, ...]
    label: float


@dataclass(frozen=True)
class Data:
    """Examples to learn from and to be measured on, by the name of the set (``mnli`` and ``mnli-mm``)."""

    train: list[Example]
    tests: dict[str, list[Example]]
    note: str = ""  # how they were split, if not as GLUE does


def read_task(task: Task, data_dir: Path, from_dev: float) -> Data:
    """The examples of ``task`` in ``data_dir``.

    Where there is no training file, as of QNLI in some collections, a share ``from_dev`` of the dev set takes its
    place; examples about one paragraph stay together.
    """
    folder = _folder(task, data_dir)
    test = _file(folder, task, "dev_matched", "dev")
    tests = {task.name: read_file(test, task)}
    other = _found(folder, "dev_mismatched")
    if task.name == "mnli" and other is not None:
        tests["mnli-mm"] = read_file(other, task)
    train = _found(folder, "train")
    if train is not None or task.name != "qnli":
        return Data(read_file(train or _file(folder, task, "train"), task), tests)
    paragraph = _paragraphs(data_dir)
    first, rest = split(tests["qnli"], from_dev, lambda example: paragraph(example.texts[1]))
    return Data(first, {"qnli": rest}, f"no training file: {from_dev:.0%} of the dev set's paragraphs instead")


def split(items: Sequence[T], share: float, group: Callable[[T], str]) -> tuple[list[T], list[T]]:
    """A ``share`` of the groups and the rest, neither empty: the same in every run, whatever the items' order."""

    def number(name: str) -> bytes:
        return hashlib.blake2b(name.encode(), digest_size=8).digest()

    of = [group(item) for item in items]
    groups = sorted(set(of), key=number)
    if len(groups) < 2:
        raise AnyorderError("all examples are of one paragraph or article, which cannot be split: add a training set")
    first = set(groups[: min(max(1, round(share * len(groups))), len(groups) - 1)])
    sides = [(item, name in first) for item, name in zip(items, of, strict=True)]
    return [item for item, side in sides if side], [item for item, side in sides if not side]


def some(items: list[T], limit: int | None) -> list[T]:
    """At most ``limit`` of the items, the same ones in every run, in their order."""
    if limit is None or limit >= len(items):
        return items
    return [items[i] for i in sorted(random.Random(0).sample(range(len(items)), limit))]


def _paragraphs(data_dir: Path) -> Callable[[str], str]:
    """Which paragraph a sentence is of: SQuAD's, which QNLI was made from, if it is at hand; else the sentence is."""
    from anyorder.studies.understanding.squad_files import find_squad, read_squad

    files = find_squad(data_dir, "dev")
    contexts = sorted({question.context for file in files for question in read_squad(file)})
    return lambda sentence: next((context for context in contexts if sentence in context), sentence)


def read_file(path: Path, task: Task) -> list[Example]:
    """The examples of one file.

    Raises:
        AnyorderError: a column, a label or a text is missing, or the file is another task's.
    """
    lines = enumerate(Source(str(path), format="lines"), 1)
    _, first = next(lines, (1, ""))
    width, texts, label = layout = _layout(path, task, first.split("\t"))
    examples = [] if _named(task, first.split("\t")) else [_example(path, 1, first.split("\t"), task, layout)]
    for number, line in lines:
        cells = line.split("\t")
        if not line or (task.torn and len(cells) < width):
            continue
        if len(cells) <= max(*texts, label):
            raise AnyorderError(
                f"line {number} of {path} has {count(len(cells), 'column')}, not {width}: restore the line"
            )
        examples.append(_example(path, number, cells, task, layout))
    if not examples:
        raise AnyorderError(f"{path} holds no examples: take GLUE's file of {task.folder}")
    return examples


Layout = tuple[int, tuple[int, ...], int]  # columns, those of the texts, that of the label


def _named(task: Task, cells: list[str]) -> bool:
    """Whether a first line is the header of this task and of none with more columns (QNLI's names SST-2's too)."""
    fits = [other for other in GLUE.values() if other.header and set(other.columns) <= set(cells)]
    return task in fits and all(len(other.columns) <= len(task.columns) for other in fits)


def _plain(task: Task, cells: list[str]) -> bool:
    """Whether a line could be an example of this task in a file without a header."""
    return task.plain is not None and len(cells) == task.plain[0] and cells[task.plain[2]] in task.values


def _layout(path: Path, task: Task, cells: list[str]) -> Layout:
    if _named(task, cells):
        return len(cells), tuple(cells.index(name) for name in task.texts), cells.index(task.label)
    if task.plain is not None and _plain(task, cells):
        return task.plain
    others = [t.name for t in GLUE.values() if _named(t, cells)] or [t.name for t in GLUE.values() if _plain(t, cells)]
    if others:
        raise AnyorderError(f"{path} is a file of {' or '.join(others)}, not of {task.name}: take {task.folder}'s")
    missing = [name for name in task.columns if name not in cells]
    shown = ", ".join(cell[:30] for cell in cells[:10])
    raise AnyorderError(
        f"{path} has no column {missing[0]!r}, only {shown}: {task.name} needs GLUE's labelled train.tsv and dev.tsv"
    )


def _example(path: Path, number: int, cells: list[str], task: Task, layout: Layout) -> Example:
    _, texts, label = layout
    value = cells[label].strip()
    if task.values and value not in task.values:
        raise AnyorderError(
            f"line {number} of {path} has the label {value!r}, which is none of {', '.join(task.values)}: is this "
            f"{task.folder}'s file, and labelled?"
        )
    try:
        return Example(tuple(cells[i] for i in texts), task.values.index(value) if task.values else float(value))
    except ValueError:
        raise AnyorderError(f"line {number} of {path} has the score {value!r}, which is no number: mend it") from None


def folders(data_dir: Path) -> Iterator[Path]:
    """Where a task's folder may lie, and at last the folder itself."""
    if not data_dir.is_dir():
        raise AnyorderError(f"there is no folder {data_dir}: name the one that holds GLUE's folders with --data-dir")
    for place in (data_dir, data_dir / "glue", data_dir / "GLUE"):
        if place.is_dir():
            yield from sorted(one for one in place.iterdir() if one.is_dir())
    yield data_dir


def _folder(task: Task, data_dir: Path) -> Path:
    for folder in folders(data_dir):
        named = folder.name.lower().replace("-", "").replace("_", "") == task.name
        if named or (folder == data_dir and _found(folder, "train") is not None):
            return folder
    raise AnyorderError(
        f"{data_dir} has no folder {task.folder}: put GLUE's train.tsv and dev.tsv of {task.name} there"
    )


def _found(folder: Path, *stems: str) -> Path | None:
    files = (folder / f"{stem}.tsv{end}" for stem in stems for end in ENDINGS)
    return next((file for file in files if file.is_file()), None)


def _file(folder: Path, task: Task, *stems: str) -> Path:
    if (path := _found(folder, *stems)) is not None:
        return path
    raise AnyorderError(f"{folder} has no {stems[-1]}.tsv (or .xz, .gz): {task.name} needs train.tsv and dev.tsv")
