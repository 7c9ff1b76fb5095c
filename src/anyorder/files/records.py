"""Texts of a Hugging Face dataset: a folder written by ``save_to_disk``, or a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError


def dataset_texts(path: Path, column: str) -> Iterator[str]:
    """The text of every record, read as it is needed; records without one are passed over."""
    try:
        names, values = _folder(path, column) if path.is_dir() else _parquet(path, column)
    except ImportError as error:
        raise AnyorderError(f"{path} is read with the datasets library: pip install 'anyorder[train]'") from error
    except (OSError, ValueError) as error:  # what pyarrow raises is of these kinds too
        raise AnyorderError(
            f"{path} is no dataset ({' '.join(str(error).split())}): name a text file, a Parquet file, or a folder "
            "written by save_to_disk"
        ) from error
    if column not in names:
        raise AnyorderError(f"{path} has no column {column!r}, only {', '.join(names)}: name one with data.column")
    for value in values:
        if value is not None and not isinstance(value, str):
            raise AnyorderError(f"{path}: the column {column!r} holds {value!r}, which is not a text: set data.column")
        if value:
            yield value


def _folder(path: Path, column: str) -> tuple[list[str], Iterable[Any]]:
    from datasets import DatasetDict, load_from_disk

    found = load_from_disk(str(path))
    if isinstance(found, DatasetDict):
        splits = list(found)
        raise AnyorderError(f"{path} holds the splits {', '.join(splits)}: name one of them, {path / splits[0]}")
    return found.column_names, (row[column] for row in found)


def _parquet(path: Path, column: str) -> tuple[list[str], Iterable[Any]]:
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(path)
    batches = file.iter_batches(columns=[column])
    return file.schema_arrow.names, (value for batch in batches for value in batch.column(0).to_pylist())
