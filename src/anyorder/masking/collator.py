"""Masks for training: draw the count K from the prior, then which K tokens, then what replaces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from anyorder.masking.priors import Prior, count_probabilities

# Fractional parts of i times the golden ratio fill [0, 1) evenly for every run of consecutive i.
_GOLDEN = 0.6180339887498949
_SILVER = 0.4142135623730951  # the same for the parts of one text, independently of i


@dataclass(frozen=True)
class Masker:
    """Masks of a numbered stream of texts. The mask of text ``i`` depends on (seed, i) alone.

    So it is the same whatever the batch, the number of processes, or the step at which a killed run resumed.

    Args:
        prior: the law of the number of masked tokens.
        mask_id: what a masked token becomes.
        vocab_size: range of the random tokens of 80/10/10.
        special_ids: tokens that are never masked (padding among them) nor drawn as random replacements.
        corruption: ``mask`` (always [MASK]) or ``80-10-10`` (BERT's).
        stratified: spread the counts of consecutive texts evenly over the prior instead of drawing each by itself.
            Each count keeps the prior's law; the average over a batch varies less.
        after: only what follows the first such token is ever masked: of a pair, the target. None: all of a text.
    """

    prior: Prior
    mask_id: int
    vocab_size: int
    special_ids: frozenset[int]
    corruption: str = "mask"
    stratified: bool = True
    seed: int = 0
    after: int | None = None

    def maskable(self, tokens: np.ndarray) -> np.ndarray:
        """[..., N] bool: the tokens of [..., N] that may be masked."""
        free = ~np.isin(tokens, list(self.special_ids))
        return free if self.after is None else free & (np.cumsum(tokens == self.after, -1) > 0)

    def __call__(self, index: int, tokens: np.ndarray, part: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Tokens [N] of text ``index`` -> (corrupted tokens [N], masked [N] bool); a packed text has several parts."""
        rng = self._rng(index, part)
        chosen = self._chosen(rng, index, tokens, part)
        masked = np.zeros(len(tokens), dtype=bool)
        masked[chosen] = True
        corrupted = tokens.copy()
        corrupted[chosen] = self.mask_id
        if self.corruption == "80-10-10":
            fate = rng.random(len(chosen))
            kept, replaced = chosen[fate < 0.1], chosen[fate >= 0.9]
            corrupted[kept] = tokens[kept]
            corrupted[replaced] = rng.choice(self._ordinary, len(replaced))
        return corrupted, masked

    def order(self, index: int, tokens: np.ndarray, part: int = 0) -> np.ndarray:
        """The positions [K] masked in text ``index``, in a uniformly random order."""
        return self._chosen(self._rng(index, part), index, tokens, part)

    def _rng(self, index: int, part: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, index, part) if part else (self.seed, index))

    def _chosen(self, rng: np.random.Generator, index: int, tokens: np.ndarray, part: int) -> np.ndarray:
        maskable = np.flatnonzero(self.maskable(tokens))
        k = self._count(rng, index * _GOLDEN + part * _SILVER, len(maskable))
        return rng.permutation(maskable)[:k]

    def _count(self, rng: np.random.Generator, place: float, n: int) -> int:
        """K by inverse CDF; the uniform it inverts is i.i.d., or a shifted golden-ratio sequence if stratified."""
        u = rng.random()
        if self.stratified:
            u = (np.random.default_rng(self.seed).random() + place) % 1.0
        cdf = count_probabilities(self.prior, n).cumsum()
        return min(int(np.searchsorted(cdf, u, side="right")), n)

    @cached_property
    def _ordinary(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self.vocab_size), list(self.special_ids))


def collate(
    texts: list[np.ndarray],
    indices: list[int],
    masker: Masker,
    pad_id: int,
    parts: list[int] | None = None,
    orders: Mapping[int, np.ndarray] | None = None,
) -> dict[str, Tensor]:
    """Numbered texts -> ``input_ids`` (corrupted), ``tokens`` (true), ``masked``: all [B, longest].

    Rows named in ``orders`` are not corrupted: they predict these positions one after the other. ``turn``, which is
    there if any row is, says when they read each token: 0 what is given, t the t-th predicted, -1 padding. Other rows
    are -1 throughout.
    """
    longest = max(len(t) for t in texts)
    tokens = np.full((len(texts), longest), pad_id, dtype=np.int64)
    inputs = tokens.copy()
    masked = np.zeros(tokens.shape, dtype=bool)
    turn = np.full(tokens.shape, -1, dtype=np.int64)
    for row, (index, part, text) in enumerate(zip(indices, parts or [0] * len(texts), texts, strict=True)):
        tokens[row, : len(text)] = text
        if orders and row in orders:
            inputs[row, : len(text)] = text
            masked[row, orders[row]] = True
            turn[row, : len(text)] = 0
            turn[row, orders[row]] = np.arange(1, len(orders[row]) + 1)
        else:
            inputs[row, : len(text)], masked[row, : len(text)] = masker(index, text.astype(np.int64), part)
    fields = {"input_ids": inputs, "tokens": tokens, "masked": masked} | ({"turn": turn} if orders else {})
    return {name: torch.from_numpy(field) for name, field in fields.items()}
