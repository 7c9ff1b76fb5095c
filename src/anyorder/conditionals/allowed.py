"""Conditionals that are allowed only some tokens at each position."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyorder.conditionals.reread import chain_by_asking
from anyorder.types import Conditionals, Ordered


class _Rules:
    """What may stand where.

    What a blank may hold (no special tokens, whole words, a given first letter) depends on the position only, so the
    same restriction serves any batch of rows, in any order, however a sampler has cut it.
    """

    def __init__(self, inner: Conditionals | Ordered, allowed: Tensor) -> None:
        """Restrict ``inner`` to ``allowed``, [N, V] bool, at least one token at each position."""
        if not bool(allowed.any(-1).all()):
            raise ValueError("every position needs at least one allowed token")
        self.vocab_size = inner.vocab_size
        self.mask_id = inner.mask_id
        self.pad_id = inner.pad_id
        # Most positions share one rule: keep each distinct rule once, and a position's number among them.
        numbers: dict[bytes, int] = {}
        keys = [row.tobytes() for row in np.packbits(allowed.numpy(), axis=1)]
        self._rule = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys])  # [N]
        self._bans = ~allowed[[keys.index(key) for key in numbers]]  # [R, V]

    def _restricted(self, log_q: Tensor, positions: Tensor) -> Tensor:
        banned = self._bans.to(log_q.device)[self._rule.to(positions.device)[positions.clamp(min=0)]]
        banned &= (positions >= 0)[..., None]
        return log_q.masked_fill(banned, -torch.inf).log_softmax(-1)


class Allowed(_Rules):
    """log q(x_t | observed) restricted to the tokens allowed at t, and normalised again."""

    def __init__(self, conditionals: Conditionals, allowed: Tensor) -> None:
        super().__init__(conditionals, allowed)
        self._conditionals = conditionals

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q, [B, K, V]; see :class:`anyorder.types.Conditionals`."""
        return self._restricted(self._conditionals(tokens, positions), positions)


class AllowedOrdered(_Rules):
    """The same of a model read in order; see :class:`anyorder.types.Ordered`."""

    def __init__(self, ordered: Ordered, allowed: Tensor) -> None:
        super().__init__(ordered, allowed)
        self._ordered = ordered

    def begin(self, tokens: Tensor, given: Tensor) -> Any:
        """As the model."""
        return self._ordered.begin(tokens, given)

    def read(self, memory: Any, positions: Tensor, tokens: Tensor) -> Any:
        """As the model."""
        return self._ordered.read(memory, positions, tokens)

    def ask(self, memory: Any, positions: Tensor) -> Tensor:
        """log q, [B, K, V]."""
        return self._restricted(self._ordered.ask(memory, positions), positions)

    def chain(self, tokens: Tensor, given: Tensor, order: Tensor) -> Tensor:
        """[B, N] float64, one question after the other: the restricted law is normalised over all V."""
        return chain_by_asking(self, tokens, given, order)
