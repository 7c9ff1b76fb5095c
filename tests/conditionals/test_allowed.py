from __future__ import annotations

import pytest
import torch

from anyorder.conditionals import random_joint
from anyorder.conditionals.allowed import Allowed


def test_only_allowed_tokens_keep_mass_and_it_is_one():
    table = random_joint(torch.Generator().manual_seed(0), 3, 3)
    allowed = torch.tensor([[True, True, True], [True, False, True], [False, False, True]])
    narrow = Allowed(table, allowed)
    tokens = torch.full((2, 3), table.mask_id)
    tokens[1, 0] = 2
    positions = torch.tensor([[2, 1, 0], [1, -1, 2]])
    p, q = table(tokens, positions).exp(), narrow(tokens, positions).exp()
    for row in range(2):
        for slot in range(3):
            if positions[row, slot] < 0:
                torch.testing.assert_close(q[row, slot], torch.full((3,), 1 / 3, dtype=q.dtype))
                continue
            rule = allowed[positions[row, slot]]
            by_hand = torch.where(rule, p[row, slot], 0.0)
            torch.testing.assert_close(q[row, slot], by_hand / by_hand.sum())


def test_a_position_without_a_token_is_refused():
    table = random_joint(torch.Generator().manual_seed(0), 2, 2)
    with pytest.raises(ValueError, match="at least one"):
        Allowed(table, torch.tensor([[True, True], [False, False]]))
