"""Results to a file, a whole window of lines at a time, so that a killed run can go on where it stopped.

Windows begin at multiples of their size, counted from the first text: they are a function of the input and not of
where a run was cut. What is computed together is therefore the same in every run, and so is every byte.
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

Record = dict[str, Any]


class Results:
    """An output file that holds whole windows only, beside a note of the settings while it is unfinished.

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
        self.note = None if path is None else path.with_name(path.name + ".unfinished")
        self.written = 0  # texts in the file
        self._begun = False

    def check(self) -> None:
        """Refuse, before any work, an output that could not be written or would be lost."""
        if self.path is None or self.note is None:
            return
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise AnyorderError(f"cannot write {self.path}: name a file in a folder that exists")
        if self.note.exists():
            raise AnyorderError(f"{self.path} is unfinished: continue it with --resume, or delete it and {self.note}")

    def resume(self, texts: Iterator[str], window: int, total: int | None) -> None:
        """Keep the whole windows that are there and cut off the rest.

        Args:
            texts: The input from its beginning; those that are done are taken from it, and must be those in the file.
            window: Texts a window.
            total: Texts in the input, if known: then a finished file is left as it is.
        """
        if self.path is None or self.note is None:
            raise AnyorderError("--resume continues a file: name it with --out")
        if self.note.exists():
            before = json.loads(self.note.read_text())
            for name, value in self.settings.items():
                if before.get(name) != value:
                    raise AnyorderError(
                        f"{self.path} was begun with {name} {before.get(name)!r}, not {value!r}: use the same settings "
                        "or write to another file"
                    )
        if not self.path.exists():
            return
        lines = int(self.header is not None)
        ends = [0]  # byte offsets after each whole line
        with self.path.open("rb") as file:
            for raw in file:
                if raw.endswith(b"\n"):
                    ends.append(ends[-1] + len(raw))
        done = max(0, len(ends) - 1 - lines)
        keep = done if done == total else done - done % window
        self._compare(self.path, texts, keep)
        with self.path.open("rb+") as file:
            file.truncate(ends[keep + lines] if keep else 0)
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
        header = [] if self._begun or self.header is None else [self.header]
        data = "".join(line + "\n" for line in [*header, *lines])
        if self.path is None or self.note is None:
            sys.stdout.write(data)
            sys.stdout.flush()
        else:
            if not self.note.exists():
                # Renamed into place, so that a run killed here leaves a whole note or none.
                draft = self.note.with_name(self.note.name + ".new")
                draft.write_text(json.dumps(self.settings))
                draft.replace(self.note)
            with self.path.open("ab" if self._begun else "wb") as file:
                file.write(data.encode())
                file.flush()
                os.fsync(file.fileno())
        self._begun = True
        self.written += len(lines)

    def finish(self) -> None:
        """The file is complete; an input without texts leaves an empty one."""
        if not self._begun:
            self.write([])
        if self.note is not None:
            self.note.unlink(missing_ok=True)


def windows(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Consecutive lists of ``size`` texts; the last may be shorter."""
    iterator = iter(texts)
    while window := list(islice(iterator, size)):
        yield window


class Journal:
    """Finished examples as JSON lines, the settings first. A line that a crash has torn is dropped on resuming."""

    def __init__(self, path: Path, settings: dict[str, Any], *, resume: bool) -> None:
        self.path = path
        self.records: list[Record] = []
        if resume and path.exists():
            self._read(settings)
        else:
            if path.exists():  # nothing finished is ever lost: the last run stays beside the new one
                os.replace(path, path.with_name(path.name + ".old"))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps({"settings": settings}) + "\n", encoding="utf-8")
            except OSError as error:
                raise AnyorderError(f"cannot write {path} ({error.strerror}): choose another --out") from error

    def _read(self, settings: dict[str, Any]) -> None:
        raw = self.path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
            before = lines[0]["settings"]
            self.records = [line for line in lines[1:] if "scores" in line]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise AnyorderError(f"{self.path} is not a journal of evaluate pairwise: choose another --out") from error
        changed = [key for key in settings if before.get(key) != settings[key]]
        if changed:
            key = changed[0]
            raise AnyorderError(
                f"{self.path} was begun with {key} {before.get(key)!r}, not {settings[key]!r}: "
                "repeat the earlier settings, or leave out --resume to begin anew"
            )
        if len(whole) < len(raw):
            os.truncate(self.path, len(whole))

    def add(self, record: Record) -> None:
        """Append one finished example, on disk before the next begins."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.records.append(record)
