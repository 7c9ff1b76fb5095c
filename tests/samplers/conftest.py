"""What the sampler tests share: conditionals that count, and batches with rows of every kind."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor


class Counting:
    """Conditionals that remember every row and position they were asked for."""

    def __init__(self, inner):
        self.inner = inner
        self.vocab_size, self.mask_id, self.pad_id = inner.vocab_size, inner.mask_id, inner.pad_id
        self.rows: list[Tensor] = []
        self.positions: list[Tensor] = []

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        assert len(tokens) > 0, "a model must not be called for nothing"
        self.rows.append(tokens.clone())
        self.positions.append(positions.clone())
        return self.inner(tokens, positions)

    @property
    def count(self) -> int:
        return sum(map(len, self.rows))


@pytest.fixture
def counting():
    return Counting


@pytest.fixture
def batch(tiny_lm):
    """(conditionals without special tokens, tokens [4, 12], free): full, short and padded, few blanks, no blank."""
    from anyorder.conditionals import text_only

    t = tiny_lm.tokenizer
    model = text_only(tiny_lm.conditionals, t)
    g = torch.Generator().manual_seed(7)
    tokens = torch.randint(10, model.vocab_size, (4, 12), generator=g)
    tokens[:, 0] = t.cls_token_id
    tokens[[0, 2, 3], 11] = t.sep_token_id
    tokens[1, 7] = t.sep_token_id
    tokens[1, 8:] = t.pad_token_id
    free = torch.zeros((4, 12), dtype=torch.bool)
    free[0, 1:11] = True
    free[1, 2:6] = True
    free[2, [3, 8]] = True
    return model, tokens, free
