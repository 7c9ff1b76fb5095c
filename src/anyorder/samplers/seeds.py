"""A seed fixes each text: a row's randomness comes from (seed, the row's name), whatever else is in its batch."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable

import numpy as np
import torch
from torch import Tensor


class Seeds:
    """One source of uniforms per row, a :class:`anyorder.types.Noise`.

    u[c, row, i] of step t is a function of (seed, name of the row, t, i, c) alone: Philox, a counter-based generator,
    keyed by the seed and the name, with t in one word of its counter and i, c in another. So the text of a row is the
    same alone, in any batch, and padded to any length (as far as the model answers the same to its last bits).

    Args:
        seed: Any whole number.
        names: What tells the rows apart, one name per row; usually the texts' numbers. Equal names, equal draws.
    """

    def __init__(self, seed: int, names: Iterable[Hashable]) -> None:
        self._begin((seed, name) for name in names)

    @classmethod
    def of(cls, keys: Iterable[tuple[int, Hashable]]) -> Seeds:
        """Rows with a seed each, (seed, name): what a row is given is the same as among rows of one seed."""
        made = cls(0, ())
        made._begin(keys)
        return made

    def _begin(self, keys: Iterable[tuple[int, Hashable]]) -> None:
        self._sources = [np.random.Philox(key=_key(seed, name)) for seed, name in keys]
        self._draws = [np.random.Generator(source) for source in self._sources]
        self._states = [source.state for source in self._sources]  # as they are before anything is drawn
        self._step = 0

    def uniforms(self, rows: int, length: int, count: int) -> Tensor:
        """[count, rows, length] float64 in [0, 1), those of the next step."""
        if rows != len(self._sources):
            raise ValueError(f"{rows} rows but {len(self._sources)} seeds: give one name per row")
        u = np.empty((rows, length, count))  # position before use: what stands further right changes nothing here
        for source, draw, state, out in zip(self._sources, self._draws, self._states, u, strict=True):
            # Setting the counter costs a fifth of making a new generator. Nothing is left over from the step before:
            # the state is that of a generator that has not drawn.
            state["state"]["counter"][1] = self._step
            source.state = state
            draw.random(out=out)
        self._step += 1
        return torch.from_numpy(u).permute(2, 0, 1).contiguous()


def _key(seed: int, name: Hashable) -> int:
    """128 bits of ``seed`` and ``name``."""
    return int.from_bytes(hashlib.blake2b(repr((seed, name)).encode(), digest_size=16).digest(), "big")
