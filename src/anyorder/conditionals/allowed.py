"""Conditionals that are allowed only some tokens at each position."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from anyorder.types import Conditionals


class Allowed:
    """log q(x_t | observed) restricted to the tokens allowed at t, and normalised again.

    What a blank may hold (no special tokens, whole words, a given first letter) depends on the position only, so the
    same restriction serves any batch of rows, in any order, however a sampler has cut it.
    """

    def __init__(self, conditionals: Conditionals, allowed: Tensor) -> None:
        """Restrict ``conditionals`` to ``allowed``, [N, V] bool, at least one token a position."""
        if not bool(allowed.any(-1).all()):
            raise ValueError("every position needs at least one allowed token")
        self._conditionals = conditionals
        self.vocab_size = conditionals.vocab_size
        self.mask_id = conditionals.mask_id
        self.pad_id = conditionals.pad_id
        # Most positions share one rule: keep each distinct rule once, and a position's number among them.
        numbers: dict[bytes, int] = {}
        keys = [row.tobytes() for row in np.packbits(allowed.numpy(), axis=1)]
        self._rule = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys])  # [N]
        self._bans = ~allowed[[keys.index(key) for key in numbers]]  # [R, V]

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q, [B, K, V]; see :class:`anyorder.types.Conditionals`."""
        log_q = self._conditionals(tokens, positions)
        banned = self._bans.to(log_q.device)[self._rule.to(positions.device)[positions.clamp(min=0)]]
        banned &= (positions >= 0)[..., None]
        return log_q.masked_fill(banned, -torch.inf).log_softmax(-1)
