"""Texts to blocks of token ids, tokenised once into a memory-mapped cache.

A text file holds a paragraph a line, and a blank line between documents; of JSON lines, a Parquet file or a dataset's
folder every record is a document. A block is ``[CLS] paragraph [SEP] paragraph …`` from one document only: a new
document starts a new block, and a paragraph that does not fit goes on in the next one. With ``unit: line`` every line
is a text of its own, one block each.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from anyorder.errors import AnyorderError
from anyorder.files.reading import Source
from anyorder.files.records import dataset_texts

Document = list[str]
_MISSING = "no data file {path}: give its folder with --data-dir, or correct data.files in the recipe"
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
    if not path.exists():
        raise AnyorderError(_MISSING.format(path=path))
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


def sha256(path: Path) -> str:
    """Checksum of a file's bytes; of a folder, of its files' names and checksums."""
    if path.is_dir():
        files = {str(file.relative_to(path)): sha256(file) for file in sorted(path.rglob("*")) if file.is_file()}
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()
    if not path.is_file():
        raise AnyorderError(_MISSING.format(path=path))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def split(path: Path, unit: str, holdout: float, column: str = "text") -> tuple[list[Document], list[Document]]:
    """The documents of a file as (training, held out): the last ``holdout`` of them, at least one if any is asked."""
    every = list(documents(path, unit, column))
    if not every:
        raise AnyorderError(f"{path} holds no text: every line of it is blank")
    n = max(1, round(holdout * len(every))) if holdout else 0
    if n >= len(every):
        raise AnyorderError(
            f"{path} has {len(every)} document(s), too few to hold out {holdout:.0%}: set data.holdout to 0"
        )
    return every[: len(every) - n], every[len(every) - n :]


def to_blocks(
    docs: Sequence[Document], tokenizer: PreTrainedTokenizerBase, length: int, min_tokens: int
) -> Iterator[list[int]]:
    """Blocks of at most ``length`` ids; a document's last block is dropped if it has fewer than ``min_tokens``."""
    opening, closing = _frame(tokenizer)
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
                if len(block) > min_tokens:
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
    if len(block) > min_tokens:
        yield block


def _frame(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The tokens that open a block and close a paragraph; some tokenizers call them bos and eos, or have none."""
    opening = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    closing = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    return [i for i in [opening] if i is not None], [i for i in [closing] if i is not None]


@dataclass(frozen=True)
class Blocks:
    """Blocks of one split: ``ids`` and where each block begins, both memory-mapped."""

    ids: np.ndarray  # all blocks end to end
    offsets: np.ndarray  # [blocks + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    @staticmethod
    def load(folder: Path, part: str) -> Blocks:
        """The cached split ``part``."""
        ids = np.load(folder / f"{part}.ids.npy", mmap_mode="r")
        return Blocks(ids, np.load(folder / f"{part}.offsets.npy", mmap_mode="r"))


def _write(folder: Path, part: str, blocks: Iterator[list[int]], vocab_size: int) -> int:
    dtype = np.uint16 if vocab_size <= 2**16 else np.uint32
    pieces, offsets = [], [0]
    for block in blocks:
        pieces.append(np.asarray(block, dtype=dtype))
        offsets.append(offsets[-1] + len(block))
    np.save(folder / f"{part}.ids.npy", np.concatenate(pieces) if pieces else np.zeros(0, dtype))
    np.save(folder / f"{part}.offsets.npy", np.asarray(offsets))
    return offsets[-1]


def cache(
    files: Sequence[Path],
    tokenizer: PreTrainedTokenizerBase,
    *,
    root: Path,
    length: int,
    unit: str = "document",
    column: str = "text",
    holdout: float = 0.01,
    min_tokens: int = 16,
) -> Path:
    """The folder of memory-mapped blocks for these files and this tokenizer, made if it is not there yet.

    Its name is a checksum of everything that decides its content, so a stale cache cannot be picked up.
    """
    sums = {path.name: sha256(path) for path in files}
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()))
    settings = {
        "files": sums,
        "length": length,
        "unit": unit,
        "column": column,
        "holdout": holdout,
        "min_tokens": min_tokens,
    }
    key = hashlib.sha256((json.dumps(settings) + vocabulary).encode()).hexdigest()[:16]
    folder = root / key
    if (folder / "meta.json").exists():
        return folder
    building = root / f"{key}.{os.getpid()}.building"
    building.mkdir(parents=True, exist_ok=True)
    train, valid = [], []
    for path in files:
        kept, held = split(path, unit, holdout, column)
        train += kept
        valid += held
    counts = {
        part: _write(building, part, to_blocks(docs, tokenizer, length, min_tokens), len(tokenizer))
        for part, docs in (("train", train), ("valid", valid))
    }
    if not counts["train"]:
        raise AnyorderError(
            f"the data gives no block of more than {min_tokens} tokens: add text or lower data.min_tokens"
        )
    (building / "meta.json").write_text(json.dumps({**settings, "tokens": counts}, indent=2))
    if folder.exists():
        shutil.rmtree(folder)  # left by a run killed before meta.json was written
    building.rename(folder)
    return folder
