"""Texts to blocks of token ids, tokenised once into a memory-mapped cache.

A text file holds one paragraph per line and a blank line between documents; of JSON lines, a Parquet file or a
dataset's folder every record is a document. A block is ``[CLS] paragraph [SEP] paragraph …`` from one document only: a
new document starts a new block, and a paragraph that does not fit goes on in the next one. With ``unit: line`` every
line is a text of its own, one block each; with ``columns`` every row is a pair (``pairs.py``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from transformers import PreTrainedTokenizerBase

from anyorder.errors import AnyorderError, count
from anyorder.files.disk import atomically, sha256
from anyorder.files.reading import Source
from anyorder.files.records import dataset_texts
from anyorder.training.packing import pack as packed
from anyorder.training.pairs import pair_blocks, pairs

T = TypeVar("T")
Document = list[str]
_BATCH = 2000  # paragraphs tokenised at a time: enough to keep the Rust threads busy


def documents(path: Path, unit: str = "document", column: str = "text") -> Iterator[Document]:
    """The documents of a file, each a list of paragraphs."""
    document: Document = []
    for line in _lines(path, column):
        text = line.strip()
        if text:
            document.append(text)
        if document and (not text or unit == "line"):
            yield document
            document = []
    if document:
        yield document


def _lines(path: Path, column: str) -> Iterator[str]:
    """The lines of a text file; of records, the lines of each and an empty one after it: a record is a document."""
    _check_there(path)
    source = Source(str(path))
    if path.is_dir() or path.suffix == ".parquet":
        texts = dataset_texts(path, column)
    elif source.kind == "jsonl":
        texts = (source.text(n, row, column, "name one with data.column") for n, row in source.objects() if row)
    else:
        yield from Source(str(path), format="lines")
        return
    for text in texts:
        yield from text.splitlines()
        yield ""


def _check_there(path: Path) -> None:
    if not path.exists():
        raise AnyorderError(f"no data file {path}: give its folder with --data-dir, or correct data.files")


def split(
    path: Path, unit: str, holdout: float, column: str = "text", columns: Sequence[str] = ()
) -> tuple[list[Document], list[Document]]:
    """The documents of a file as (training, held out): the last ``holdout`` of them, at least one if any is asked."""
    every = pairs(path, columns) if columns else list(documents(path, unit, column))
    if not every:
        raise AnyorderError(f"{path} holds no text: every line of it is blank")
    n = max(1, round(holdout * len(every))) if holdout else 0
    if n >= len(every):
        raise AnyorderError(
            f"{path} has {count(len(every), 'document')}, too few to hold out {holdout:.0%}: set data.holdout to 0"
        )
    return every[: len(every) - n], every[len(every) - n :]


def split_files(
    files: Sequence[Path], unit: Sequence[str], holdout: Sequence[float], column: str, columns: Sequence[str]
) -> list[tuple[list[Document], list[Document]]]:
    """:func:`split` of each file; a unit or a share to hold out that is given once holds for all of them."""
    units, shares = _per_file("data.unit", unit, len(files)), _per_file("data.holdout", holdout, len(files))
    return [split(path, u, h, column, columns) for path, u, h in zip(files, units, shares, strict=True)]


def _per_file(name: str, values: Sequence[T], files: int) -> list[T]:
    if len(values) not in (1, files):
        raise AnyorderError(
            f"{name} has {len(values)} values for {count(files, 'file')}: give one for all, or one for each"
        )
    return list(values) * files if len(values) == 1 else list(values)


def to_blocks(
    docs: Sequence[Document], tokenizer: PreTrainedTokenizerBase, length: int, min_tokens: int
) -> Iterator[list[int]]:
    """Blocks of at most ``length`` ids; a document's last block is dropped if it has fewer than ``min_tokens``."""
    opening, closing = _frame(tokenizer)
    shortest = max(min_tokens, len(opening))  # an opening alone is no text
    flat = [(d, paragraph) for d, doc in enumerate(docs) for paragraph in doc]
    block = list(opening)
    current = 0
    for start in range(0, len(flat), _BATCH):
        part = flat[start : start + _BATCH]
        # verbose=False: paragraphs longer than a row are expected here, and cut below
        options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
        encoded = tokenizer([p for _, p in part], **options)["input_ids"]
        for (d, _), ids in zip(part, encoded, strict=True):
            if d != current:
                if len(block) > shortest:
                    yield block
                block, current = list(opening), d
            ids = [*ids, *closing]
            while ids:
                room = length - len(block)
                block += ids[:room]
                ids = ids[room:]
                if len(block) == length:
                    yield block
                    block = list(opening)
    if len(block) > shortest:
        yield block


def _frame(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The tokens that open a block and close a paragraph; some tokenizers call them bos and eos, or have none."""
    opening = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    closing = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    return [i for i in [opening] if i is not None], [i for i in [closing] if i is not None]


def in_shares(files: Sequence[list[str]], weights: Sequence[float]) -> Iterator[str]:
    """As many characters of each file as its weight says, as much of all as there is; paragraphs evenly spread."""
    sizes = [sum(map(len, paragraphs)) for paragraphs in files]
    shares = weights or sizes
    most = min(size / share for size, share in zip(sizes, shares, strict=True) if share)
    for paragraphs, size, share in zip(files, sizes, shares, strict=True):
        count = round(len(paragraphs) * share * most / size) if size else 0
        yield from (paragraphs[i] for i in evenly(0, len(paragraphs), count))


def opening_id(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token that opens every text, if there is one."""
    return next(iter(_frame(tokenizer)[0]), None)


def evenly(first: int, last: int, count: int) -> list[int]:
    """At most ``count`` numbers from first to before last, evenly spread."""
    return [int(i) for i in np.linspace(first, last - 1, min(count, last - first))]


def _write(folder: Path, part: str, files: Sequence[Iterator[list[int]]], vocab_size: int) -> tuple[int, list[int]]:
    """Write the blocks of one split; returns its tokens, and how many blocks each file has."""
    dtype = np.uint16 if vocab_size <= 2**16 else np.uint32
    pieces: list[np.ndarray] = []
    offsets, sizes = [0], []
    for blocks in files:
        before = len(pieces)
        for block in blocks:
            pieces.append(np.asarray(block, dtype=dtype))
            offsets.append(offsets[-1] + len(block))
        sizes.append(len(pieces) - before)
    np.save(folder / f"{part}.ids.npy", np.concatenate(pieces) if pieces else np.zeros(0, dtype))
    np.save(folder / f"{part}.offsets.npy", np.asarray(offsets))
    return offsets[-1], sizes


def checksums(files: Sequence[Path]) -> dict[str, str] | list[tuple[str, str]]:
    """Names and checksums of files; as pairs where two in different folders share a name."""
    for path in files:
        _check_there(path)
    sums = [(path.name, sha256(path)) for path in files]
    return dict(sums) if len(dict(sums)) == len(sums) else sums


def cache(
    files: Sequence[Path],
    tokenizer: PreTrainedTokenizerBase,
    *,
    root: Path,
    length: int,
    unit: Sequence[str] = ("document",),
    column: str = "text",
    columns: Sequence[str] = (),
    holdout: Sequence[float] = (0.01,),
    min_tokens: int = 16,
    pack: bool = False,
) -> Path:
    """The folder of memory-mapped blocks for these files and this tokenizer, made if it is not there yet.

    Its name is a checksum of everything that decides its content, so a stale cache cannot be picked up.
    """
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()))
    settings = {
        "files": checksums(files),
        "length": length,
        "unit": list(unit),
        "column": column,
        "holdout": list(holdout),
        "min_tokens": min_tokens,
        "pack": pack,
    } | ({"columns": list(columns)} if columns else {})
    key = hashlib.sha256((json.dumps(settings) + vocabulary).encode()).hexdigest()[:16]
    folder = root / key
    if (folder / "meta.json").exists():
        return folder
    if pack and not _frame(tokenizer)[0]:
        raise AnyorderError("data.pack needs a tokenizer with a token that opens a text ([CLS]): set it to false")
    halves = zip(*split_files(files, unit, holdout, column, columns), strict=True)

    def blocks_of(docs: list[Document]) -> Iterator[list[int]]:
        cut = pair_blocks(docs, tokenizer, length) if columns else to_blocks(docs, tokenizer, length, min_tokens)
        return packed(cut, length) if pack else cut

    def write(building: Path) -> None:
        tokens, blocks = {}, {}
        for part, docs in zip(("train", "valid"), halves, strict=True):
            tokens[part], blocks[part] = _write(building, part, list(map(blocks_of, docs)), len(tokenizer))
        if not tokens["train"]:
            raise AnyorderError(
                f"the data has no pair of at most {length} tokens: raise data.length"
                if columns
                else f"the data gives no block of more than {min_tokens} tokens: add text or lower data.min_tokens"
            )
        (building / "meta.json").write_text(json.dumps({**settings, "tokens": tokens, "blocks": blocks}, indent=2))

    atomically(folder, write)
    return folder
