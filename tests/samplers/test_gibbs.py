"""k-block Gibbs: its kernel, against the exact one."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from anyorder.conditionals import random_joint
from anyorder.errors import AnyorderError
from anyorder.samplers import gibbs, run

START = (2, 0, 1, 0)


@pytest.fixture(scope="module")
def table():
    return random_joint(torch.Generator().manual_seed(3), 3, 4, concentration=0.7)


def exact_step(table, block: int, mode: str):
    """Law of the state after one step from START, [V]*N, summed up set by set from the joint alone."""
    p = table.log_joint.exp()
    law = torch.zeros_like(p)
    sets = list(combinations(range(4), block))
    for chosen in sets:
        index = tuple(slice(None) if d in chosen else START[d] for d in range(4))
        inside = p[index] / p[index].sum()
        if mode == "parallel":
            product = torch.ones_like(inside)
            for axis in range(block):
                others = [d for d in range(block) if d != axis]
                marginal = inside.sum(others) if others else inside
                product = product * marginal.view([-1 if d == axis else 1 for d in range(block)])
            inside = product
        law[index] += inside / len(sets)
    return law.flatten()


def frequencies(table, tokens):
    index = (tokens * 3 ** torch.arange(3, -1, -1)).sum(1)
    return torch.bincount(index, minlength=81) / len(tokens)


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("block", [1, 2, 4])
def test_one_step_has_the_exact_law(table, block, mode):
    rows = 20000
    start = torch.tensor(START).repeat(rows, 1)
    sampler = gibbs(table, block=block, mode=mode)
    result = run(sampler, start, torch.ones_like(start, dtype=torch.bool), generator=_g(), steps=1)
    law = exact_step(table, block, mode)
    # 81 comparisons: 4.5 standard errors, and a little for cells expected less than once.
    error = (law * (1 - law) / rows).sqrt()
    assert ((frequencies(table, result.tokens) - law).abs() <= 4.5 * error + 2 / rows).all()
    assert result.rows == rows * (block if mode == "sequential" else 1)


def test_parallel_and_sequential_blocks_differ():
    table = random_joint(torch.Generator().manual_seed(3), 3, 4, concentration=0.7)
    assert (exact_step(table, 2, "parallel") - exact_step(table, 2, "sequential")).abs().sum() > 0.1


def test_the_set_is_uniform_among_the_free(table):
    start = torch.tensor(START).repeat(6000, 1)
    free = torch.tensor([True, True, False, True]).repeat(6000, 1)
    info = run(gibbs(table, block=2), start, free, generator=_g(), steps=1).trace
    pairs = info.positions[0].sort(1).values
    found, count = torch.unique(pairs, dim=0, return_counts=True)
    assert found.tolist() == [[0, 1], [0, 3], [1, 3]]
    assert ((count / 6000 - 1 / 3).abs() < 4 * (2 / 9 / 6000) ** 0.5).all()


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_masks_are_filled_before_the_chain_moves(table, mode):
    tokens = torch.tensor([[3, 3, 3, 3], [1, 3, 2, 0], [1, 0, 2, 0]]).repeat(50, 1)
    free = torch.ones_like(tokens, dtype=torch.bool)
    trace = run(gibbs(table, block=2, mode=mode), tokens, free, generator=_g(), steps=2).trace
    # Four masks take two steps of two and are all met; one mask takes a step of its own.
    assert torch.equal(
        trace.positions[:, 0::3].permute(1, 0, 2).flatten(1).sort(1).values, torch.arange(4).expand(50, 4)
    )
    assert (trace.positions[0, 1::3] == torch.tensor([1, -1])).all()
    assert (trace.positions[1, 1::3] >= 0).all()
    assert (trace.positions[0, 2::3] >= 0).all()


def test_sequential_filling_from_masks_is_exact(table):
    tokens = torch.full((20000, 4), table.mask_id)
    sampler = gibbs(table, block=3, mode="sequential")
    out = run(sampler, tokens, tokens == table.mask_id, generator=_g(), steps=2).tokens
    law = table.log_joint.exp().flatten()
    assert ((frequencies(table, out) - law).abs() <= 4.5 * (law * (1 - law) / 20000).sqrt() + 1e-4).all()


def test_a_block_larger_than_what_is_free_is_all_of_it(table):
    tokens = torch.zeros((3, 4), dtype=torch.long)
    free = torch.tensor([[True, True, False, False]]).repeat(3, 1)
    trace = run(gibbs(table, block=9), tokens, free, generator=_g(), steps=1).trace
    assert torch.equal(trace.positions[0].sort(1).values, torch.tensor([[0, 1]] * 3))


def test_bad_settings_are_refused(table):
    with pytest.raises(AnyorderError, match="at least one position"):
        gibbs(table, block=0)
    with pytest.raises(AnyorderError, match="unknown Gibbs mode"):
        gibbs(table, mode="both")


def _g(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
