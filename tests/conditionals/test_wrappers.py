"""Banned tokens against the exact table."""

from __future__ import annotations

import math

import pytest
import torch

from anyorder.conditionals import Table, ban, random_joint
from anyorder.errors import AnyorderError


def test_ban_conditions_on_the_allowed_tokens() -> None:
    table = random_joint(torch.Generator().manual_seed(0), vocab_size=4, length=3)
    tokens = torch.tensor([[4, 2, 4], [4, 4, 4]])
    positions = torch.tensor([[0, 2], [1, -1]])
    q = table(tokens, positions).exp()
    banned = ban(table, [1, 3, 4])(tokens, positions).exp()
    expected = q * torch.tensor([1.0, 0.0, 1.0, 0.0])
    expected = expected / expected.sum(-1, keepdim=True)
    torch.testing.assert_close(banned[:, 0], expected[:, 0])
    torch.testing.assert_close(banned[0, 1], expected[0, 1])
    torch.testing.assert_close(banned[1, 1], torch.full((4,), 0.25, dtype=torch.float64))  # nothing asked: uniform


def test_ban_leaves_the_inner_answer_alone() -> None:
    log_q = torch.full((1, 1, 3), -math.log(3.0))

    class Kept:
        vocab_size, mask_id, pad_id = 3, 3, None

        def __call__(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            return log_q

    answer = ban(Kept(), [0])(torch.tensor([[3]]), torch.tensor([[0]]))
    assert math.isclose(float(answer[0, 0, 1].exp()), 0.5, rel_tol=1e-6)
    assert torch.isfinite(log_q).all()


def test_something_must_be_left_to_draw() -> None:
    with pytest.raises(AnyorderError, match="at least one"):
        ban(Table(torch.zeros(2, 2)), [0, 1])
