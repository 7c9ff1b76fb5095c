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
