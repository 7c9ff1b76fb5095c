"""The rectangle test and the residual: zero for the conditionals of a joint, and only for them."""

from __future__ import annotations

import pytest
import torch

from anyorder.conditionals import Table, random_joint
from anyorder.errors import AnyorderError
from anyorder.joints.compatibility import compatibility, cross_ratios
from joints.known_tables import Pair, conditionals_of, incompatible


def test_a_joint_passes():
    world = random_joint(torch.Generator().manual_seed(0), 6, 3)
    found = compatibility(world, torch.tensor([0, 4, 0]), 0, 2, top=4)
    assert found.max < 1e-9
    assert found.residual < 1e-9
    assert (found.tokens, found.rectangles) == (4, 36)


def test_a_single_token_has_no_rectangle():
    world = random_joint(torch.Generator().manual_seed(0), 3, 2)
    with pytest.raises(AnyorderError, match="at least two"):
        compatibility(world, torch.tensor([0, 0]), 0, 1, allowed=torch.tensor([True, False, False]))


def test_contradicting_conditionals_fail():
    ab, ba = incompatible(0, vocab_size=4)
    sizes, (a, a2, b, b2) = cross_ratios(ab, ba)
    direct = []
    for i in range(4):
        for j in range(i + 1, 4):
            for m in range(4):
                for n in range(m + 1, 4):
                    first = ab[m, i] + ab[n, j] - ab[m, j] - ab[n, i]
                    second = ba[i, m] + ba[j, n] - ba[j, m] - ba[i, n]
                    direct.append((abs(float(first - second)), (i, j, m, n)))
    assert sorted(sizes.tolist()) == pytest.approx(sorted(x for x, _ in direct))
    assert max(direct)[1] == (a, a2, b, b2)


def test_a_perturbed_joint_is_a_little_incompatible():
    p = random_joint(torch.Generator().manual_seed(1), 5, 2).log_joint.exp()

    class Nudged(Pair):
        def __call__(self, tokens, positions):
            log_q = super().__call__(tokens, positions)
            return torch.where(positions[..., None] == 0, torch.log_softmax(1.01 * log_q, -1), log_q)

    found = compatibility(Nudged(p), torch.tensor([0, 0]), 0, 1, top=None)
    assert 0 < found.mean < 0.1
    assert 0 < found.residual < 1e-3
    assert found.median <= found.max


def test_many_tokens_are_tested_by_neighbours():
    ab, ba = conditionals_of(random_joint(torch.Generator().manual_seed(2), 70, 2).log_joint.exp())
    sizes, _ = cross_ratios(ab, ba)
    assert len(sizes) == 69 * 69
    assert float(sizes.max()) < 1e-9


def test_impossible_pairs_have_no_cross_ratio():
    p = torch.tensor([[0.5, 0.0, 0.1], [0.1, 0.1, 0.1], [0.05, 0.03, 0.02]], dtype=torch.float64)
    sizes, _ = cross_ratios(*conditionals_of(p))
    assert len(sizes) == 5  # of nine; the others are not counted as agreeing
    assert float(sizes.max()) < 1e-9
    diagonal = Table(torch.eye(2, dtype=torch.float64).log())
    found = compatibility(diagonal, torch.tensor([2, 2]), 0, 1, top=None)
    assert (found.rectangles, found.mean, found.median, found.max) == (0, 0.0, 0.0, 0.0)
