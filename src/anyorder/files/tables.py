"""Parquet files: the texts of a column, and rows of results as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError

_ROWS = 8192  # of one row group


def column_texts(path: str, column: str) -> Iterator[str]:
    """The text of every row; a missing value is an empty text, so that rows keep their numbers."""
    with _opened(path) as file:
        names = file.schema_arrow.names
        if column not in names:
            shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
            raise AnyorderError(f"{path} has no column {column!r}: choose one of {shown} with --column")
        for batch in file.iter_batches(columns=[column], batch_size=_ROWS):
            for value in batch.column(0).to_pylist():
                if not isinstance(value, str | None):
                    raise AnyorderError(f"{path}: {column!r} holds {value!r}, which is not a text")
                yield value or ""


def write_table(lines: Path, path: Path, fields: dict[str, Any]) -> None:
    """Rows of JSON as a Parquet file, which takes its name once it is whole.

    Args:
        lines: A file of one JSON object per line.
        path: The table.
        fields: Its columns, see :func:`columns`. What a row does not say is null.
    """
    from pyarrow import Table
    from pyarrow.parquet import ParquetWriter

    schema = columns(fields)
    draft = path.with_name(path.name + ".new")
    with lines.open(encoding="utf-8") as file, ParquetWriter(draft, schema) as writer:
        while rows := [json.loads(line) for line in islice(file, _ROWS)]:
            writer.write_table(Table.from_pylist(rows, schema=schema))
    draft.replace(path)


def columns(fields: dict[str, Any]) -> Any:
    """An Arrow schema: a type by its name (``string``, ``int64``, ``float64``), ``[type]`` a list, a dict a struct."""
    pyarrow = check_arrow()

    def kind(said: Any) -> Any:
        if isinstance(said, list):
            return pyarrow.list_(kind(said[0]))
        if isinstance(said, dict):
            return pyarrow.struct([(name, kind(one)) for name, one in said.items()])
        return getattr(pyarrow, said)()

    return pyarrow.schema([(name, kind(said)) for name, said in fields.items()])


def check_arrow() -> Any:
    """pyarrow; where it is missing, Parquet is refused before any work."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise AnyorderError("Parquet files need pyarrow: pip install 'anyorder[cluster]'") from error
    return pyarrow


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    pyarrow = check_arrow()
    if not Path(path).exists():
        raise AnyorderError(f"there is no file {path!r}: name a file")
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise AnyorderError(
            f"{path} is no whole Parquet file ({' '.join(str(error).split())}): copy it again"
        ) from None
