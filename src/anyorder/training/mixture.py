"""Which block is number i of the endless training stream: a function of (seed, i), whatever was read before.

Without weights all blocks come in a new random order in each epoch. With weights, file f has its share w_f of every
thousand consecutive blocks, and its own blocks come in random order, a new one after each pass over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from anyorder.errors import AnyorderError, count

_PERIOD = 1000  # blocks after which the files' order repeats: shares are exact to a thousandth


class Mixture:
    """The stream of a training run.

    Args:
        sizes: blocks of each file.
        weights: the share of each file; empty for all blocks alike.
        seed: of every order.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        check_shares(weights, len(sizes))
        empty = [f for f, size in enumerate(sizes) if not size and weights and weights[f]]
        if empty:
            raise AnyorderError(f"file {empty[0] + 1} of data.files has a weight but no block: lower data.min_tokens")
        self.sizes = list(sizes) if weights else [sum(sizes)]
        self.first = np.concatenate([[0], np.cumsum(self.sizes)])
        self.seed = seed
        self.pattern = _pattern(weights or [1.0])
        # how many of the pattern's earlier places belong to the same file, and how many of all
        same = self.pattern[:, None] == np.arange(len(self.sizes))
        self.before = (np.cumsum(same, 0) - same)[np.arange(_PERIOD), self.pattern]
        self.each = same.sum(0)

    def turn(self, i: int) -> tuple[int, int]:
        """The file of the block that is number ``i``, and how many blocks of that file came before it."""
        cycle, place = divmod(i, _PERIOD)
        file = int(self.pattern[place])
        return file, cycle * int(self.each[file]) + int(self.before[place])

    def __getitem__(self, i: int) -> int:
        """The block that is number ``i``."""
        file, number = self.turn(i)
        epoch, rank = divmod(number, self.sizes[file])
        return int(self.first[file] + _shuffled(self.seed, epoch, self.sizes[file], file)[rank])


def check_shares(weights: Sequence[float], files: int) -> None:
    """Refuse ``data.weights`` that are not the shares of so many files."""
    if weights and len(weights) != files:
        raise AnyorderError(
            f"data.weights has {count(len(weights), 'share')} for {count(files, 'file')}: give one for each, or none"
        )
    if weights and (min(weights) < 0 or sum(weights) <= 0):
        raise AnyorderError("data.weights are shares: none may be negative, and one must be above 0")


def _pattern(weights: Sequence[float]) -> np.ndarray:
    """[_PERIOD] the file of each place: always the one that is furthest behind its share."""
    share = np.asarray(weights, dtype=float) / sum(weights)
    given = np.zeros(len(share))
    pattern = np.empty(_PERIOD, dtype=int)
    for place in range(_PERIOD):
        pattern[place] = np.argmax(share * (place + 1) - given)
        given[pattern[place]] += 1
    return pattern


@lru_cache(maxsize=16)
def _shuffled(seed: int, epoch: int, n: int, file: int) -> np.ndarray:
    return np.random.default_rng((seed, epoch, file) if file else (seed, epoch)).permutation(n)
