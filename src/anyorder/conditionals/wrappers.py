"""Conditionals made from conditionals."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.types import Conditionals


class Banned:
    """``inner`` given that none of ``tokens`` is drawn: -inf there, renormalised over the rest."""

    def __init__(self, inner: Conditionals, tokens: Iterable[int]) -> None:
        self.inner = inner
        self.vocab_size = inner.vocab_size
        self.mask_id = inner.mask_id
        self.pad_id = inner.pad_id
        # A mask id outside the vocabulary (as in a Table) cannot be drawn anyway.
        self.tokens = torch.tensor(sorted({t for t in tokens if 0 <= t < inner.vocab_size}), dtype=torch.long)
        if len(self.tokens) >= self.vocab_size:
            raise AnyorderError("every token is banned: leave at least one to draw")

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q(x_t | observed, x_t not banned), [B, K, V]."""
        log_q = self.inner(tokens, positions)
        # Not in place: the inner conditionals may hand out a tensor they keep.
        allowed = log_q.index_fill(-1, self.tokens.to(log_q.device), -torch.inf).log_softmax(-1)
        # By the contract a position of -1 is answered with the uniform distribution, bans or no bans.
        return torch.where((positions < 0).to(log_q.device)[..., None], log_q, allowed)


def ban(inner: Conditionals, tokens: Iterable[int]) -> Banned:
    """Forbid ``tokens`` (typically the special ones); see :class:`Banned`."""
    return Banned(inner, tokens)
