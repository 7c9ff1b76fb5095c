"""Tables to build joints from: those of a known joint, and those of none."""

from __future__ import annotations

import torch
from torch import Tensor

Tables = tuple[Tensor, Tensor]


def conditionals_of(p: Tensor) -> Tables:
    """log q(a|b) with a row for each b, and log q(b|a) with a row for each a, of a joint p [a, b]."""
    return (p / p.sum(0)).log().T.contiguous(), (p / p.sum(1, keepdim=True)).log()


def incompatible(seed: int, vocab_size: int = 5, scale: float = 2.0) -> Tables:
    """Two tables drawn independently: almost surely of no joint."""
    generator = torch.Generator().manual_seed(seed)
    draw = scale * torch.randn(2, vocab_size, vocab_size, generator=generator, dtype=torch.float64)
    a_given_b, b_given_a = torch.log_softmax(draw, -1)
    return a_given_b, b_given_a


class Pair:
    """The conditionals of a joint p [V, V] over a text of two tokens; quicker than an exact table for a large V."""

    pad_id = None

    def __init__(self, p: Tensor) -> None:
        self.p = p / p.sum()
        self.vocab_size = self.mask_id = len(p)
        self._a_given_b, self._b_given_a = (x.exp() for x in conditionals_of(self.p))

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        v = self.vocab_size
        given_b = torch.cat([self._a_given_b, self.p.sum(1)[None]])[tokens[:, 1].clamp(max=v)]
        given_a = torch.cat([self._b_given_a, self.p.sum(0)[None]])[tokens[:, 0].clamp(max=v)]
        both = torch.stack([given_b, given_a], 1)  # [B, 2, V]
        return both.gather(1, positions[..., None].expand(-1, -1, v)).log()
