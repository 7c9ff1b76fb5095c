"""Results to a file, a whole window of lines at a time, so that a killed run can go on where it stopped.

Windows begin at multiples of their size, counted from the first text: they are a function of the input and not of
where a run was cut. What is computed together is therefore the same in every run, and so is every byte.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError
from anyorder.scoring.score import Score

COLUMNS = ("log_prob", "standard_error", "tokens", "text")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_DIGITS = 6  # decimals; float32 models have no more to say


def to_json(score: Score) -> str:
    """One line of JSONL."""
    row = score.to_dict()
    row["log_prob"], row["standard_error"] = round(score.log_prob, _DIGITS), round(score.standard_error, _DIGITS)
    for term in row.get("per_token", []):
        term["log_prob"] = round(term["log_prob"], _DIGITS)
    return json.dumps(row, ensure_ascii=False)


def to_tsv(score: Score) -> str:
    """One line of TSV; with ``per_token`` a last column ``token:value …``."""
    cells = [f"{score.log_prob:.{_DIGITS}f}", f"{score.standard_error:.{_DIGITS}f}", str(score.tokens)]
    cells.append(score.text.translate(_ESCAPES))
    if score.per_token is not None:
        cells.append(" ".join(f"{token.translate(_ESCAPES)}:{value:.4f}" for token, value in score.per_token))
    return "\t".join(cells)


def tsv_header(per_token: bool) -> str:
    """The names of the columns."""
    return "\t".join((*COLUMNS, *(["per_token"] if per_token else [])))


class Results:
    """An output file that holds whole windows only, beside a note of the settings while it is unfinished.

    Args:
        path: the file; None is standard output.
        settings: all that decides the content. A resumed run must have the same.
        tsv: TSV instead of JSONL.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any], tsv: bool) -> None:
        self.path = path
        self.settings = settings
        self.tsv = tsv
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
        lines = int(self.tsv)
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
            if keep and self.tsv:
                next(file)
            for number in range(1, keep + 1):
                line, text = next(file), next(texts, None)
                if self.tsv:
                    same = text is not None and line.rstrip("\n").split("\t")[3:4] == [text.translate(_ESCAPES)]
                else:
                    same = text is not None and _text(line) == text
                if not same:
                    raise AnyorderError(
                        f"result {number} in {path} belongs to another text: it was made from another input; "
                        "write to another file"
                    )

    def write(self, scores: list[Score]) -> None:
        """Add one window."""
        lines = [to_tsv(s) if self.tsv else to_json(s) for s in scores]
        if self.tsv and not self._begun:
            lines.insert(0, tsv_header(bool(scores) and scores[0].per_token is not None))
        data = "".join(line + "\n" for line in lines)
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
        self.written += len(scores)

    def finish(self) -> None:
        """The file is complete; an input without texts leaves an empty one."""
        if not self._begun:
            self.write([])
        if self.note is not None:
            self.note.unlink(missing_ok=True)


def _text(line: str) -> Any:
    try:
        return json.loads(line)["text"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return None


def windows(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Consecutive lists of ``size`` texts; the last may be shorter."""
    iterator = iter(texts)
    while window := list(islice(iterator, size)):
        yield window
