"""Batches of texts of one length and one task: almost no padding, and a head for each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

POOL = 16  # batches that are sorted by length together: larger pools pad less, smaller ones mix texts more


class SimilarBatches(Sampler[list[int]]):
    """Batches whose rows are of similar length, of one group each, in random order.

    transformers' own length-grouped sampler goes from long to short texts over and over, so that the gradient drifts
    with the length; here its batches are shuffled. Each epoch draws others.

    Args:
        lengths: of every row.
        batch: rows per batch; the last of a group may be smaller.
        seed: of the order.
        groups: of every row, its task; all are one group if absent.
    """

    def __init__(self, lengths: Sequence[int], batch: int, seed: int, groups: Sequence[str] | None = None) -> None:
        self.batch = batch
        self.lengths = list(lengths)
        self.members: dict[str, list[int]] = {}
        for row, group in enumerate(groups or [""] * len(self.lengths)):
            self.members.setdefault(group, []).append(row)
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return sum(-(-len(rows) // self.batch) for rows in self.members.values())

    def __iter__(self) -> Iterator[list[int]]:
        batches = []
        for rows in self.members.values():
            lengths = [self.lengths[row] for row in rows]
            order = get_length_grouped_indices(lengths, self.batch, POOL, self.generator)
            near = [rows[i] for i in order]
            batches += [near[i : i + self.batch] for i in range(0, len(near), self.batch)]
        for i in torch.randperm(len(batches), generator=self.generator).tolist():
            yield batches[i]
