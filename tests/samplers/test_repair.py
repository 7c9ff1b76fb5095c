"""Repeats are found by hand and repaired by the exact conditionals."""

import torch

from anyorder.conditionals import Table
from anyorder.samplers.repair import repair, repeats


def test_repeats_by_hand():
    tokens = torch.tensor([[7, 7, 1, 2, 2, 2, 3, 3]])
    free = torch.tensor([[False, True, True, True, True, True, False, False]])
    assert repeats(tokens, free)[0].tolist() == [False, True, False, True, True, True, False, False]


def test_a_repeat_the_law_forbids_goes_and_one_it_demands_stays():
    joint = torch.full((3, 3, 3), -torch.inf)
    joint[0, 1, 2] = 0.0  # given 0 at the left: 1, 2
    joint[1, 1, 1] = 0.0  # given 1: again and again
    table = Table(joint)
    tokens = torch.tensor([[0, 1, 1], [1, 1, 1], [0, 1, 2]])
    free = torch.tensor([[False, True, True]]).expand(3, 3)
    mended = repair(table, tokens, free, generator=torch.Generator().manual_seed(0), rounds=2)
    assert mended.tokens.tolist() == [[0, 1, 2], [1, 1, 1], [0, 1, 2]]
    assert bool(mended.log_prob[2].isnan().all())  # nothing repeated, nothing asked
    assert mended.log_prob[0, 1:].tolist() == [0.0, 0.0]
    assert mended.rows > 0
