"""Texts from a file: one per line, or one column of TSV, JSONL or Parquet; plain, .gz or .xz, or standard input."""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import IO, Any, cast

from anyorder.errors import AnyorderError, choose, count
from anyorder.files.json_text import parse_json
from anyorder.files.tables import column_texts

FORMATS = ("lines", "tsv", "jsonl", "parquet")
_OPENERS: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}
_DAMAGED = (lzma.LZMAError, EOFError, gzip.BadGzipFile, zlib.error)


@dataclass(frozen=True)
class Source:
    """Where texts come from.

    Attributes:
        path: a file, or ``-`` for standard input.
        column: the name of a JSONL field, of a Parquet column or of a TSV column in the header line, or the number
            (from 1) of a column of a TSV file without a header. None: every line is a text, or the column ``text``.
        format: one of ``FORMATS``; by the file's name if None.
    """

    path: str
    column: str | None = None
    format: str | None = None

    @property
    def kind(self) -> str:
        """The format that applies."""
        if self.format is not None:
            return choose(self.format, FORMATS, "format")
        name = Path(self.path)
        suffix = (name.with_suffix("") if name.suffix in _OPENERS else name).suffix
        named = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}.get(suffix)
        if suffix in (".csv", ".json"):  # whose lines are no texts
            raise AnyorderError(
                f"{self.path} does not hold a text per line: save it as .tsv or .jsonl, or say its --format"
            )
        if named is None and self.column is not None:
            raise AnyorderError(f"is {self.path} TSV or JSONL? Say --format tsv or --format jsonl to choose a column")
        return named or "lines"

    @property
    def header(self) -> int:
        """Lines before the first text."""
        return int(self.kind == "tsv" and self.column is not None and not self.column.isdigit())

    def __iter__(self) -> Iterator[str]:
        """The texts in order; a blank line is an empty text."""
        if self.kind == "jsonl":
            for number, row in self.objects():
                yield self.text(number, row, self.column or "text", "choose one with --column") if row else ""
        elif self.kind == "tsv":
            yield from self._cells()
        elif self.kind == "parquet":
            yield from column_texts(self.path, self.column or "text")
        else:
            for _, line in self.lines():
                yield line

    def _cells(self) -> Iterator[str]:
        """The chosen column of a TSV file."""
        index = -1
        for number, line in self.lines():
            cells = line.split("\t")
            if index < 0:
                index = self._column(cells)
                if self.header:
                    continue
            if line and index >= len(cells):
                raise AnyorderError(f"line {number} of {self.path} has {count(len(cells), 'column')}, not {index + 1}")
            yield cells[index] if line else ""

    def lines(self) -> Iterator[tuple[int, str]]:
        """(number from 1, text without its line end)."""
        number = 0
        with self._open() as file:
            try:
                for number, raw in enumerate(file, 1):
                    raw = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                    yield number, raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise AnyorderError(
                    f"line {number} of {self.path} is not UTF-8 (byte 0x{error.object[error.start]:02x} at column "
                    f"{error.start + 1}): convert the file, for instance with iconv"
                ) from error
            except _DAMAGED as error:
                raise AnyorderError(f"{self.path} is damaged after line {number} ({error}): copy it again") from error

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        if self.path == "-":
            yield sys.stdin.buffer
            return
        path = Path(self.path)
        if path.is_dir():
            raise AnyorderError(f"{self.path} is a folder: name one file")
        if not path.exists():
            raise AnyorderError(f"there is no file {self.path!r}: name a file, or pipe texts in and give - as the file")
        try:
            opened = cast("IO[bytes]", _OPENERS.get(path.suffix, open)(path, "rb"))
        except OSError as error:
            raise AnyorderError(f"cannot read {self.path} ({error.strerror}): check its permissions") from None
        with opened as file:
            yield file

    def _column(self, cells: list[str]) -> int:
        if self.column is None:
            raise AnyorderError(f"which column of {self.path}? Choose one with --column: {_few(cells)}")
        if self.column in cells:
            return cells.index(self.column)
        if self.column.isdigit() and 1 <= int(self.column) <= len(cells):
            return int(self.column) - 1
        raise AnyorderError(f"{self.path} has no column {self.column!r}: choose one of {_few(cells)}")

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line number, object) of a JSONL file; blank lines are empty objects."""
        for number, line in self.lines():
            try:
                row: Any = parse_json(line) if line.strip() else {}
            except json.JSONDecodeError as error:
                message = f"line {number} of {self.path} is not JSON ({error.msg}): write one object per line"
                raise AnyorderError(message) from error
            if not isinstance(row, dict):
                raise AnyorderError(f"line {number} of {self.path} is not a JSON object: write one object per line")
            yield number, row

    def text(self, number: int, row: dict[str, Any], column: str, remedy: str) -> str:
        """One field of a JSON object, which must be a text; ``remedy`` says what to do if it is missing."""
        if column not in row:
            raise AnyorderError(f"line {number} of {self.path} has no {column!r}, only {_few(list(row))}: {remedy}")
        text = row[column]
        if not isinstance(text, str):
            raise AnyorderError(f"line {number} of {self.path}: {column!r} holds {text!r}, which is not a text")
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise AnyorderError(
                f"line {number} of {self.path}: {column!r} holds half a surrogate pair: correct the escape"
            )
        return text


def expand(names: Sequence[str]) -> list[str]:
    """Names of files, patterns such as ``texts/*.parquet`` replaced by what they match, in the order of the names."""
    found = []
    for name in names:
        pattern = any(c in name for c in "*?[") and not Path(name).exists()
        matches = sorted(glob(name, recursive=True)) if pattern else [name]
        if not matches:
            raise AnyorderError(f"no file matches {name!r}: name files, or another pattern")
        found += matches
    return found


def is_file_name(given: str) -> bool:
    """Whether an argument names a file (or standard input) rather than being a text: it exists, or looks like one."""
    path = Path(given)
    try:
        there = path.exists() and path.name != ""  # nothing and "." are texts, if poor ones
    except (OSError, ValueError):  # a long text is no file name
        return False
    return there or given == "-" or (" " not in given and path.suffix[1:].isalnum())


def _few(names: list[str]) -> str:
    return ", ".join(str(name)[:40] for name in names[:12]) + (", …" if len(names) > 12 else "")
