"""Results on disk, line by line, so that a killed run can go on where it stopped.

A *journal* is a file of whole lines and the settings that decide its content. Where the file is the result itself
(:class:`Results`), the settings lie in a note beside it while it is unfinished; where it is a record of work that may
be extended later (:class:`Journal`), they are its first line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError
from anyorder.files.disk import check_output
from anyorder.files.json_text import parse_json

Record = dict[str, Any]


def append(path: Path, lines: Iterable[str], *, new: bool = False) -> None:
    """Write lines at the end of a file (or of a new one), on disk when this returns."""
    try:
        with path.open("wb" if new else "ab") as file:
            file.write("".join(line + "\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise AnyorderError(f"cannot write {path} ({error.strerror}): choose another --out, or make room") from error


def same_settings(path: Path, before: dict[str, Any], now: dict[str, Any], remedy: str) -> None:
    """Refuse to go on with a file that was begun with other settings."""
    for name, value in now.items():
        if before.get(name) != value:
            raise AnyorderError(f"{path} was begun with {name} {before.get(name)!r}, not {value!r}: {remedy}")


def line_ends(path: Path) -> list[int]:
    """0, and the byte offset after each whole line; a line that a crash has torn has no end."""
    ends = [0]
    with path.open("rb") as file:
        for raw in file:
            if raw.endswith(b"\n"):
                ends.append(ends[-1] + len(raw))
    return ends


def same_json(line: str, text: str, field: str = "text") -> bool:
    """Whether a line of JSON is the result of ``text``."""
    try:
        return bool(parse_json(line)[field] == text)
    except (json.JSONDecodeError, KeyError, TypeError):
        return False


@dataclass(frozen=True)
class Form:
    """What becomes of the lines of a file once all of them are there.

    Attributes:
        write: (file of lines, result): writes the result, which takes its name once it is whole.
        texts: of a result, the texts it answers, None for one it does not say.
    """

    write: Callable[[Path, Path], None]
    texts: Callable[[Path], Iterable[str | None]]


class Results:
    """An output file that holds whole windows of lines only.

    Windows begin at multiples of their size, counted from the first text: they are a function of the input and not of
    where a run was cut. What is computed together is therefore the same in every run, and so is every byte.

    Args:
        path: the file; None is standard output.
        settings: all that decides the content. A resumed run must have the same.
        same: whether a line of the file is the result of a text; by default one of JSON.
        header: the first line, if there is one.
        form: what the lines become when they are complete; until then they lie beside ``path``.
    """

    def __init__(
        self,
        path: Path | None,
        settings: dict[str, Any],
        same: Callable[[str, str], bool] = same_json,
        header: str | None = None,
        form: Form | None = None,
    ) -> None:
        self.result = path
        self.path = path if path is None or form is None else path.with_name(path.name + ".lines")
        self.settings = settings
        self.same = same
        self.header = header
        self.form = form
        # A device or a pipe cannot be continued, and beside it is no place for a note.
        plain = path is not None and (path.is_file() or not path.exists())
        self.note = path.parent / (path.name + ".unfinished") if path and plain else None
        self.written = 0  # texts in the file
        self._begun = False
        self._there = False  # the result was there already

    def check(self, overwrite: bool) -> None:
        """Refuse, before any work, an output that could not be written or would be lost."""
        if self.note is not None and self.note.exists() and not overwrite:
            raise AnyorderError(
                f"{self.result} is unfinished: continue it with --resume, or replace it with --overwrite"
            )
        check_output(self.result, overwrite=overwrite, also=", or go on with --resume")

    def begin(self) -> None:
        """Start anew: until the first window is written, what is in the file is an earlier run's."""
        if self.result is not None and self.note is not None and (self.result.exists() or self.note.exists()):
            _whole(self.note, json.dumps({"replaced": True}))

    def resume(self, texts: Iterator[str], window: int, total: int | None) -> None:
        """Keep the whole windows that are there and cut off the rest.

        Args:
            texts: The input from its beginning; those that are done are taken from it, and must be those in the file.
            window: Texts per window.
            total: Texts in the input, if known: then a finished file is left as it is.
        """
        if self.path is None or self.result is None or self.note is None:
            raise AnyorderError("--resume continues a file: name it with --out")
        if self.note.exists():
            before = self._settings_before(self.note)
            if before.get("replaced"):
                return
            same_settings(self.result, before, self.settings, "use the same settings or write to another file")
        elif self.form is not None and self.result.exists():
            self._finished(self.result, texts, self.form.texts(self.result))
            return
        if not self.path.exists():
            return
        ends, lines = line_ends(self.path), int(self.header is not None)
        done = max(0, len(ends) - 1 - lines)
        keep = done if done == total else done - done % window
        self._compare(self.path, texts, keep)
        os.truncate(self.path, ends[keep + lines] if keep else 0)
        self.written, self._begun = keep, keep > 0

    def _finished(self, path: Path, texts: Iterator[str], before: Iterable[str | None]) -> None:
        """A result that is there whole stays as it is; it must be that of these texts."""
        missing = object()
        for number, (text, answered) in enumerate(zip_longest(texts, before, fillvalue=missing), 1):
            if text is missing or answered is missing or answered not in (text, None):
                raise _another(number, path)
            self.written = number
        self._there = True

    def _settings_before(self, note: Path) -> dict[str, Any]:
        try:
            return dict(parse_json(note.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise AnyorderError(f"{note} is damaged: start over with --overwrite, or write to another file") from error

    def _compare(self, path: Path, texts: Iterator[str], keep: int) -> None:
        """The first texts of the file against those of the input, line by line."""
        # A byte that is no UTF-8 makes a line that belongs to no text; line ends are those of `line_ends`.
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            if keep and self.header is not None:
                next(file)
            for number in range(1, keep + 1):
                line, text = next(file), next(texts, None)
                if text is None or not self.same(line, text):
                    raise _another(number, path)

    def write(self, lines: list[str]) -> None:
        """Add one window."""
        data = lines if self._begun or self.header is None else [self.header, *lines]
        if self.path is None:
            sys.stdout.write("".join(line + "\n" for line in data))
            sys.stdout.flush()
        else:
            if self.note is not None and not self._begun:
                self.path.unlink(missing_ok=True)  # before the note says that its content is this run's
                _whole(self.note, json.dumps(self.settings))
            append(self.path, data, new=not self._begun)
        self._begun = True
        self.written += len(lines)

    def finish(self) -> None:
        """The file is complete; an input without texts leaves an empty one."""
        if not self._begun and not self._there:
            self.write([])
        if self.form is not None and self.path is not None and self.result is not None and not self._there:
            self.form.write(self.path, self.result)
        # The note goes first: a result without one is whole, whatever else lies beside it.
        if self.note is not None:
            self.note.unlink(missing_ok=True)
        if self.form is not None and self.path is not None:
            self.path.unlink(missing_ok=True)


def _another(number: int, path: Path) -> AnyorderError:
    return AnyorderError(
        f"result {number} in {path} belongs to another text: it was made from another input; write to another file"
    )


def _whole(path: Path, text: str) -> None:
    """Write a small file that a run killed here leaves whole or not at all."""
    draft = path.with_name(path.name + ".new")
    append(draft, [text], new=True)
    try:
        draft.replace(path)
    except OSError as error:
        raise AnyorderError(f"cannot write {path} ({error.strerror}): choose another --out, or make room") from error


class Journal:
    """Finished examples as JSON lines, the settings first; a torn line is dropped on resuming."""

    def __init__(self, path: Path, settings: dict[str, Any], *, resume: bool, overwrite: bool = False) -> None:
        self.path = path
        self.records: list[Record] = []
        # Killed before its first line was whole, it has said nothing.
        begun = path.is_file() and line_ends(path)[-1] > 0
        if resume and begun:
            self._read(settings)
            return
        check_output(path, overwrite=overwrite or (resume and not begun), also=", or go on with --resume")
        append(path, [json.dumps({"settings": settings})], new=True)

    def _read(self, settings: dict[str, Any]) -> None:
        whole = line_ends(self.path)[-1]
        try:
            first, *self.records = [parse_json(line) for line in self.path.read_bytes()[:whole].splitlines()]
            before = first["settings"]
            if not (isinstance(before, dict) and all(isinstance(one, dict) for one in self.records)):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            raise AnyorderError(f"{self.path} is not a journal of this command: choose another --out") from error
        same_settings(self.path, before, settings, "repeat the earlier settings, or start over with --overwrite")
        os.truncate(self.path, whole)

    def add(self, record: Record) -> None:
        """Append one finished example, on disk before the next begins."""
        append(self.path, [json.dumps(record)])
        self.records.append(record)


def windows(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Consecutive lists of ``size`` texts; the last may be shorter."""
    iterator = iter(texts)
    while window := list(islice(iterator, size)):
        yield window
