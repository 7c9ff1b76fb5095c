"""The tokenised corpus as it is read during training: blocks in a memory-mapped cache, which ``data.py`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyorder.errors import AnyorderError
from anyorder.files.json_text import parse_json
from anyorder.models.fit import first_line


@dataclass(frozen=True)
class Blocks:
    """Blocks of one split: ``ids`` and where each block begins, both memory-mapped."""

    ids: np.ndarray  # all blocks end to end
    offsets: np.ndarray  # [blocks + 1]
    sizes: tuple[int, ...]  # blocks of each file, whose blocks follow each other

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    def frequencies(self, weights: Sequence[float], vocab_size: int) -> np.ndarray:
        """[V] expected number of each token in as many blocks as there are, drawn by ``weights`` (none: all alike)."""
        total = np.zeros(vocab_size)
        ends = self.offsets[np.cumsum([0, *self.sizes])]
        for file, size in enumerate(self.sizes):
            counts = np.bincount(self.ids[ends[file] : ends[file + 1]], minlength=vocab_size)
            total += counts * (weights[file] / sum(weights) * len(self) / max(1, size) if weights else 1.0)
        return total

    @staticmethod
    def load(folder: Path, part: str, vocab_size: int | None = None) -> Blocks:
        """The cached split ``part``, whose tokens are below ``vocab_size``.

        Raises:
            AnyorderError: a disk, or somebody, has damaged the cache.
        """
        try:
            ids = np.load(folder / f"{part}.ids.npy", mmap_mode="r")
            offsets = np.load(folder / f"{part}.offsets.npy", mmap_mode="r")
            sizes = tuple(map(int, parse_json((folder / "meta.json").read_text())["blocks"][part]))
            _check(ids, offsets, sizes, vocab_size)
        except Exception as error:  # numpy's reader raises anything, down to errors of Python's own tokenizer
            raise AnyorderError(
                f"the tokenised data in {folder} is damaged ({first_line(error)}): remove the folder, "
                "and it is made again"
            ) from None
        return Blocks(ids, offsets, sizes)


def _check(ids: np.ndarray, offsets: np.ndarray, sizes: tuple[int, ...], vocab_size: int | None) -> None:
    """One look at every token, which costs less than the checksum of the corpus that every start takes."""
    if ids.ndim != 1 or ids.dtype.kind != "u" or offsets.ndim != 1 or offsets.dtype.kind != "i" or not len(offsets):
        raise ValueError("its arrays are of another kind")
    if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise ValueError("its blocks do not follow each other")
    if min(sizes, default=0) < 0 or sum(sizes) != len(offsets) - 1:
        raise ValueError("its files have other numbers of blocks")
    if vocab_size is not None and len(ids) and ids.max() >= vocab_size:
        raise ValueError(f"token {ids.max()} is not in the vocabulary")
