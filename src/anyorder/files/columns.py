"""Several columns of one file, row by row: the two sides of a pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyorder.errors import AnyorderError, count
from anyorder.files.reading import Source


def rows(path: str, columns: Sequence[str], option: str = "data.columns") -> Iterator[tuple[str, ...]]:
    """The texts of ``columns`` in every row of a TSV or JSON-lines file, plain, .gz or .xz; blank lines do not count.

    Args:
        path: A file; what is not called .jsonl is TSV.
        columns: Names (of JSON fields, or of TSV columns in the header line), or numbers from 1 in TSV without one.
        option: How the user named the columns, for messages.
    """
    source = Source(path)
    if source.kind == "jsonl":
        remedy = f"name the right ones with {option}"
        for number, row in source.objects():
            if row:
                yield tuple(source.text(number, row, column, remedy) for column in columns)
        return
    places: list[int] = []
    for number, line in Source(path, format="lines").lines():
        if not line.strip():
            continue
        cells = line.split("\t")
        if not places:
            places = [_place(path, cells, column, option) for column in columns]
            if not all(column.isdigit() for column in columns):
                continue  # the header
        if max(places) >= len(cells):
            raise AnyorderError(
                f"line {number} of {path} has {count(len(cells), 'column')}, not {max(places) + 1}: "
                "put a tab between them"
            )
        yield tuple(cells[place].strip() for place in places)


def _place(path: str, cells: Sequence[str], column: str, option: str) -> int:
    """Which of a first line's cells a column is."""
    if column.isdigit() and int(column) >= 1:
        if int(column) > len(cells):
            raise AnyorderError(
                f"{path} has {count(len(cells), 'column')}, no column {column}: put a tab between the texts of a "
                f"pair, or correct {option}"
            )
        return int(column) - 1
    if column not in cells:
        raise AnyorderError(
            f"the first line of {path} names no column {column!r}: correct {option}, or number the columns from 1"
        )
    return cells.index(column)
