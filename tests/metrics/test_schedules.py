"""Schedules with a price: the price is a KL divergence of exact laws, the optimal blocks are the cheapest."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

from anyorder.conditionals import random_joint
from anyorder.errors import AnyorderError
from anyorder.metrics.curve import NAME, Curve, read_curve
from anyorder.metrics.schedules import FORMULAS, optimal, price

TOY = [5.0, 4.0, 3.0, 2.85, 2.80]


def compositions(n, steps):
    """Every way to cut n into ``steps`` blocks."""
    for cuts in itertools.combinations(range(1, n), steps - 1):
        edges = (0, *cuts, n)
        yield tuple(b - a for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize(("steps", "total"), enumerate([25, 19, 18, 17.7, 17.65], 1))
def test_the_toy_of_five_tokens(steps, total):
    blocks = optimal(TOY, steps)
    assert len(blocks) == steps
    assert price(TOY, blocks) == pytest.approx(total - sum(TOY))


@pytest.mark.parametrize("seed", range(6))
def test_no_other_blocks_are_cheaper(seed):
    losses = np.random.default_rng(seed).normal(size=9)  # also where a curve rises
    if seed % 2:
        losses = np.sort(losses)[::-1]
    for steps in range(1, 10):
        blocks = optimal(losses, steps)
        assert len(blocks) == steps
        assert sum(blocks) == 9
        cheapest = min(price(losses, other) for other in compositions(9, steps))
        assert price(losses, blocks) == pytest.approx(cheapest, abs=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("blanks", [0, 1, 5, 16, 61])
@pytest.mark.parametrize("steps", [1, 2, 7, 16, 100])
def test_formulas_share_out_all_blanks(name, blanks, steps):
    blocks = FORMULAS[name](blanks, steps)
    assert sum(blocks) == blanks
    assert len(blocks) == min(steps, blanks)
    assert all(size >= 1 for size in blocks)


def laws(table, blocks):
    """The law of (order, text) drawn by ``blocks``, as {order: p(order, text) [V]*N}."""
    n = table.length
    orders = list(itertools.permutations(range(n)))
    found = {}
    for order in orders:
        log_p = torch.zeros(len(table.states), dtype=torch.float64)
        done = 0
        for size in blocks:
            shown = torch.full_like(table.states, table.mask_id)
            before = list(order[:done])
            shown[:, before] = table.states[:, before]
            where = torch.tensor(order[done : done + size]).expand(len(shown), -1)
            log_q = table(shown, where).gather(-1, table.states.gather(1, where)[..., None])[..., 0]
            log_p += log_q.sum(1)
            done += size
        found[order] = log_p.exp() / len(orders)
    return found


def kl(p, q):
    return float((p * (p.log() - q.log())).sum())


@pytest.mark.parametrize("blocks", [(4,), (1, 3), (2, 2), (3, 1), (1, 2, 1), (1, 1, 1, 1)])
def test_the_price_is_the_divergence_of_order_and_text_and_bounds_that_of_the_text(blocks):
    table = random_joint(torch.Generator().manual_seed(3), 3, 4, concentration=0.5)
    one_by_one, by_blocks = laws(table, (1, 1, 1, 1)), laws(table, blocks)
    # L(t) by its definition: the loss of the next token of a random order when t stand.
    p, losses = table.log_joint.exp().flatten(), np.zeros(4)
    for order in one_by_one:
        for t in range(4):
            shown = torch.full_like(table.states, table.mask_id)
            shown[:, list(order[:t])] = table.states[:, list(order[:t])]
            where = torch.full((len(shown), 1), order[t])
            log_q = table(shown, where).gather(-1, table.states.gather(1, where)[..., None])[:, 0, 0]
            losses[t] -= float((p * log_q).sum()) / len(one_by_one)
    both = sum(kl(one_by_one[order], by_blocks[order]) for order in one_by_one)
    assert price(losses, blocks) == pytest.approx(both, abs=1e-12)
    texts = kl(sum(one_by_one.values()), sum(by_blocks.values()))
    assert texts <= both + 1e-12
    if len(blocks) < 4:
        assert texts > 1e-3


def test_a_curve_is_read_between_its_points_and_at_other_lengths(tmp_path):
    curve = Curve((0.0, 0.5, 0.75), (6.0, 4.0, 3.0), (0.1, 0.1, 0.1), tokens=4, texts=10)
    assert curve.losses(4).tolist() == [6, 5, 4, 3]
    assert curve.losses(8, given=4).tolist() == [4, 3.5, 3, 3]
    curve.write(tmp_path / NAME)
    assert read_curve(tmp_path) == curve
    assert read_curve(tmp_path / "elsewhere") is None


@pytest.mark.parametrize(
    "said",
    ["{", "[]", '{"visible": [0]}', json.dumps({"visible": [0, 0], "loss": [1, 2], "standard_error": [], "tokens": 2,
     "texts": 1}), json.dumps({"visible": [0], "loss": [math.nan], "standard_error": [0], "tokens": 2, "texts": 1})],
)  # fmt: skip
def test_a_damaged_curve_is_refused_in_a_sentence(tmp_path, said):
    (tmp_path / NAME).write_text(said)
    with pytest.raises(AnyorderError, match="evaluate schedule"):
        read_curve(tmp_path)
