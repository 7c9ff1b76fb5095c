"""Parallel steps whose neighbouring positions are drawn from their joint."""

from __future__ import annotations

import pytest
import torch

from anyorder.conditionals import chain_edges, ising, random_joint
from anyorder.conditionals.restricted import Restricted
from anyorder.joints.pair_draw import _couples, pair_draw
from anyorder.samplers import parallel
from anyorder.samplers.run import run
from joints.known_tables import Pair


def total_variation(drawn, log_joint):
    v, n = log_joint.shape[0], log_joint.ndim
    index = (drawn * v ** torch.arange(n - 1, -1, -1)).sum(1)
    counts = torch.bincount(index, minlength=v**n).double() / len(drawn)
    return float((counts - log_joint.exp().flatten()).abs().sum()) / 2


def drawn(world, length, rows, steps, **options):
    tokens = torch.full((rows, length), world.mask_id)
    sampler = parallel(world, steps=steps, commit="random", **options)
    return run(
        sampler, tokens, torch.ones_like(tokens, dtype=torch.bool), generator=torch.Generator().manual_seed(0)
    ).tokens


def test_one_step_for_two_positions_is_exact():
    """With exact conditionals the Arnold–Gokhale joint of a pair is the truth; the product is not."""
    world = ising(chain_edges(2), 2, coupling=1.0)
    product = drawn(world, 2, 4000, 1)
    joint = drawn(world, 2, 4000, 1, pair_draw=pair_draw(world))
    assert total_variation(product, world.log_joint) > 0.3
    assert total_variation(joint, world.log_joint) < 0.03


def test_pairs_in_a_longer_text_lower_the_bias():
    world = ising(chain_edges(4), 4, coupling=1.0)
    product, joint = drawn(world, 4, 3000, 1), drawn(world, 4, 3000, 1, pair_draw=pair_draw(world))
    assert total_variation(joint, world.log_joint) < total_variation(product, world.log_joint) - 0.1
    # What is drawn is exactly p(1, 2) p(3, 4).
    p = world.log_joint.exp()
    two_pairs = p.sum((2, 3))[:, :, None, None] * p.sum((0, 1))
    assert total_variation(joint, two_pairs.log()) < 0.04


def test_tokens_outside_the_support_stay_possible():
    """With a support of two tokens of six the others keep about the mass the model gives them."""
    p = random_joint(torch.Generator().manual_seed(1), 6, 2).log_joint.exp()
    world = Pair(p)
    draws = drawn(world, 2, 20_000, 1, pair_draw=pair_draw(world, support=2))
    for side in (0, 1):
        found = torch.bincount(draws[:, side], minlength=6).double() / len(draws)
        expected = p.sum(1 - side)
        top = expected.topk(2).indices
        assert float((found - expected).index_fill(0, top, 0.0).abs().sum()) < 0.06
        assert float(found.min()) > 0


def test_tokens_that_are_not_allowed_are_never_drawn():
    """Restricted to some tokens per position, a pair comes from the joint given that it is among them."""
    world = random_joint(torch.Generator().manual_seed(3), 4, 2, concentration=0.5)
    allowed = torch.tensor([[True, True, False, False], [False, True, True, True]])
    draws = drawn(Restricted(world, allowed), 2, 4000, 1, pair_draw=pair_draw(Restricted(world, allowed)))
    p = world.log_joint.exp() * (allowed[0][:, None] & allowed[1])
    assert bool((p[draws[:, 0], draws[:, 1]] > 0).all())
    assert total_variation(draws, (p / p.sum()).log()) < 0.03


def test_likely_tokens_that_never_go_together_are_drawn_as_if_independent():
    """The two likeliest of each position exclude each other: a support of two holds no possible pair."""
    p = torch.zeros(10, 10, dtype=torch.float64)
    p[:2, 2:] = p[2:, :2] = 1 / 32
    world = Pair(p)
    draws = drawn(world, 2, 10_000, 1, pair_draw=pair_draw(world, support=2))
    assert total_variation(draws, (p.sum(1)[:, None] * p.sum(0)).log()) < 0.06


def test_the_same_noise_gives_the_same_tokens():
    world = ising(chain_edges(4), 4, coupling=0.5)
    options = {"steps": 2, "pair_draw": pair_draw(world)}
    assert torch.equal(drawn(world, 4, 50, **options), drawn(world, 4, 50, **options))


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([[3, 4, 5]], [(0, 0, 1)]),
        ([[5, 4, 9, 8]], [(0, 1, 0), (0, 3, 2)]),
        ([[1, 2, 3, 4]], [(0, 0, 1), (0, 2, 3)]),
        ([[1, 3, -1], [7, -1, -1]], []),
        ([[1, 3, -1], [7, -1, 8]], [(1, 0, 2)]),
    ],
)
def test_which_positions_are_coupled(positions, expected):
    row, left, right = _couples(torch.tensor(positions))
    assert list(zip(row.tolist(), left.tolist(), right.tolist(), strict=True)) == expected
