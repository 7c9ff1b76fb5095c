"""Pairs of a source and a target as blocks: ``[CLS] source [SEP] target [SEP]``, of which only the target is masked.

A translation is a text with blanks, ``[CLS] source [SEP] ___ … ___ [SEP]``: everything else follows from that. What the
row does not say is how many blanks there are; a head learns it from rows of the source alone, ``[CLS] source [SEP]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from anyorder.files.columns import rows
from anyorder.text.pairs import PairFrame, pair_frame, sides

_BATCH = 2000  # pairs tokenised at a time


def pairs(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """The pairs of a file as documents of two paragraphs, those with an empty side left out.

    They come in a random order that is always the same: files of pairs are often sorted, and what is held out, or put
    into one row, should not be all alike.
    """
    found = [list(pair) for pair in rows(str(path), columns) if all(pair)]
    return [found[i] for i in np.random.default_rng(0).permutation(len(found))]


def pair_blocks(docs: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase, length: int) -> Iterator[list[int]]:
    """A block for each pair; those of more than ``length`` tokens, or with a side without any, are left out."""
    before, between, after = pair_frame(tokenizer)
    for start in range(0, len(docs), _BATCH):
        part = docs[start : start + _BATCH]
        both = (sides(tokenizer, [pair[side] for pair in part]) for side in (0, 1))
        for source, target in zip(*both, strict=True):
            block = [*before, *source, *between, *target, *after]
            if source and target and len(block) <= length:
                yield block


def sources_of(texts: Sequence[np.ndarray], frame: PairFrame) -> tuple[list[np.ndarray], list[int]]:
    """``[CLS] source [SEP]`` of each pair, and the tokens of its target."""
    sources = [text[: int(np.flatnonzero(text == frame.between[0])[0]) + 1] for text in texts]
    special = len(frame.between) - 1 + len(frame.after)
    return sources, [len(text) - len(source) - special for text, source in zip(texts, sources, strict=True)]


def length_questions(shape: torch.Size, sources: Sequence[np.ndarray], lengths: Sequence[int]) -> dict[str, Tensor]:
    """What is asked of the sources, which are the last rows of a batch of ``shape``: fields that are 0 elsewhere.

    ``length`` [T, N]: the target's tokens, at the row's first token; ``source_length``: the source's own.
    """
    length, source_length = torch.zeros((2, *shape), dtype=torch.long)
    length[-len(sources) :, 0] = torch.tensor(lengths)
    source_length[-len(sources) :, 0] = torch.tensor([len(source) - 2 for source in sources])
    return {"length": length, "source_length": source_length}


def in_rows(lengths: Sequence[int], width: int, first: int) -> list[int]:
    """A row for each text of these lengths, from row ``first`` on, as many in one as fit into ``width``."""
    placed, row, used = [], first - 1, width + 1
    for n in lengths:
        if used + n > width:
            row, used = row + 1, 0
        placed.append(row)
        used += n
    return placed
