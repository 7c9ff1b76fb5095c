"""Several short texts in one row, each reading only itself: no padding, and every text as if it stood alone.

Every text of a block begins with the opening token, so a block says itself where its texts lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyorder.errors import AnyorderError

_OPEN = 16  # rows being filled at a time: with fewer more of each row stays empty, with more neighbours part

# Whose backbones take a mask of each pair of positions and position ids of their own.
FAMILIES = ("bert", "roberta", "distilbert", "modernbert", "anyorder-relative-bert")


def pack(texts: Iterable[list[int]], length: int) -> Iterator[list[int]]:
    """Texts put end to end into blocks of at most ``length``: each goes where it leaves the least room."""
    rows: list[list[int]] = []
    for text in texts:
        fitting = [row for row in rows if len(row) + len(text) <= length]
        if fitting:
            max(fitting, key=len).extend(text)
        else:
            rows.append(list(text))
        if len(rows) > _OPEN:
            fullest = max(rows, key=len)
            rows = [row for row in rows if row is not fullest]
            yield fullest
    yield from rows


def texts_of(block: np.ndarray, opening: int) -> list[np.ndarray]:
    """The texts of a packed block: each begins with ``opening``."""
    starts = np.flatnonzero(block == opening)
    return np.split(block, starts[starts > 0])


def pack_batch(
    batch: dict[str, Tensor], lengths: Sequence[int], rows: Sequence[int], pad_id: int, first: int | None = 0
) -> dict[str, Tensor]:
    """Texts of a batch, one per row, put end to end.

    Args:
        batch: ``input_ids``, ``tokens``, ``masked`` and perhaps ``turn`` and others, each [T, longest].
        lengths: [T] tokens of each text.
        rows: [T] the packed row that each goes to; texts of one row follow each other.
        pad_id: what fills a row's end.
        first: the position id of each text's first token; None for a model without any.

    Returns:
        The same fields [B, N], ``position_ids`` [B, N], ``text`` [B, N], the number of each position's text (-1:
        padding), and ``attention_mask`` [B, 1, N, N], 0 within a text and the lowest number between two.
    """
    count = max(rows) + 1
    width = max(int(n) for n in np.bincount(rows, weights=lengths))
    empty = {"input_ids": pad_id, "tokens": pad_id, "turn": -1}  # other fields are 0 where there is no text
    out = {name: torch.full((count, width), empty.get(name, 0), dtype=field.dtype) for name, field in batch.items()}
    out["text"] = torch.full((count, width), -1)
    if first is not None:
        out["position_ids"] = torch.full((count, width), first)
    used = [0] * count
    for t, (row, n) in enumerate(zip(rows, lengths, strict=True)):
        part = slice(used[row], used[row] + n)
        for name in batch:
            out[name][row, part] = batch[name][t, :n]
        if first is not None:
            out["position_ids"][row, part] = first + torch.arange(n)
        out["text"][row, part] = t
        used[row] += n
    apart = out["text"][:, None, :, None] != out["text"][:, None, None, :]  # padding reads padding
    out["attention_mask"] = torch.zeros(apart.shape).masked_fill_(apart, torch.finfo(torch.float32).min)
    return out


def check_family(model: Any) -> None:
    """Refuse to pack for a backbone that cannot keep the texts of a row apart."""
    config = model.config
    if config.model_type not in FAMILIES:
        raise AnyorderError(
            f"data.pack does not know how {config.model_type} reads several texts in a row: set it to false, "
            f"or choose one of {', '.join(FAMILIES)}"
        )
    if set(getattr(config, "layer_types", None) or ["full_attention"]) != {"full_attention"}:
        raise AnyorderError("data.pack needs layers that see the whole row: set it to false for sliding windows")
