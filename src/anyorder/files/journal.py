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
from itertools import islice
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError
from anyorder.files.disk import check_output

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


class Results:
    """An output file that holds whole windows of lines only.

    Windows begin at multiples of their size, counted from the first text: they are a function of the input and not of
    where a run was cut. What is computed together is therefore the same in every run, and so is every byte.

    Args:
        path: the file; None is standard output.
        settings: all that decides the content. A resumed run must have the same.
        same: whether a line of the file is the result of a text.
        header: the first line, if there is one.
    """

    def __init__(
        self, path: Path | None, settings: dict[str, Any], same: Callable[[str, str], bool], header: str | None = None
    ) -> None:
        self.path = path
        self.settings = settings
        self.same = same
        self.header = header
        # A device or a pipe cannot be continued, and beside it is no place for a note.
        plain = path is not None and (path.is_file() or not path.exists())
        self.note = path.parent / (path.name + ".unfinished") if path and plain else None
        self.written = 0  # texts in the file
        self._begun = False

    def check(self, overwrite: bool) -> None:
        """Refuse, before any work, an output that could not be written or would be lost."""
        if self.note is not None and self.note.exists() and not overwrite:
            raise AnyorderError(f"{self.path} is unfinished: continue it with --resume, or replace it with --overwrite")
        check_output(self.path, overwrite=overwrite, also=", or go on with --resume")
        if self.note is not None:
            self.note.unlink(missing_ok=True)

    def resume(self, texts: Iterator[str], window: int, total: int | None) -> None:
        """Keep the whole windows that are there and cut off the rest.

        Args:
            texts: The input from its beginning; those that are done are taken from it, and must be those in the file.
            window: Texts per window.
            total: Texts in the input, if known: then a finished file is left as it is.
        """
        if self.path is None or self.note is None:
            raise AnyorderError("--resume continues a file: name it with --out")
        if self.note.exists():
            remedy = "use the same settings or write to another file"
            same_settings(self.path, json.loads(self.note.read_text()), self.settings, remedy)
        if not self.path.exists():
            return
        ends, lines = line_ends(self.path), int(self.header is not None)
        done = max(0, len(ends) - 1 - lines)
        keep = done if done == total else done - done % window
        self._compare(self.path, texts, keep)
        os.truncate(self.path, ends[keep + lines] if keep else 0)
        self.written, self._begun = keep, keep > 0

    def _compare(self, path: Path, texts: Iterator[str], keep: int) -> None:
        """The first texts of the file against those of the input, line by line."""
        with path.open(encoding="utf-8") as file:
            if keep and self.header is not None:
                next(file)
            for number in range(1, keep + 1):
                line, text = next(file), next(texts, None)
                if text is None or not self.same(line, text):
                    raise AnyorderError(
                        f"result {number} in {path} belongs to another text: it was made from another input; "
                        "write to another file"
                    )

    def write(self, lines: list[str]) -> None:
        """Add one window."""
        data = lines if self._begun or self.header is None else [self.header, *lines]
        if self.path is None:
            sys.stdout.write("".join(line + "\n" for line in data))
            sys.stdout.flush()
        else:
            if self.note is not None and not self.note.exists():
                # Renamed into place, so that a run killed here leaves a whole note or none.
                draft = self.note.with_name(self.note.name + ".new")
                draft.write_text(json.dumps(self.settings))
                draft.replace(self.note)
            append(self.path, data, new=not self._begun)
        self._begun = True
        self.written += len(lines)

    def finish(self) -> None:
        """The file is complete; an input without texts leaves an empty one."""
        if not self._begun:
            self.write([])
        if self.note is not None:
            self.note.unlink(missing_ok=True)


class Journal:
    """Finished examples as JSON lines, the settings first; a torn line is dropped on resuming."""

    def __init__(self, path: Path, settings: dict[str, Any], *, resume: bool, overwrite: bool = False) -> None:
        self.path = path
        self.records: list[Record] = []
        if resume and path.exists():
            self._read(settings)
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AnyorderError(f"cannot write {path} ({error.strerror}): choose another --out") from error
        check_output(path, overwrite=overwrite, also=", or go on with --resume")
        append(path, [json.dumps({"settings": settings})], new=True)

    def _read(self, settings: dict[str, Any]) -> None:
        whole = line_ends(self.path)[-1]
        try:
            first, *self.records = [json.loads(line) for line in self.path.read_bytes()[:whole].splitlines()]
            before = first["settings"]
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
