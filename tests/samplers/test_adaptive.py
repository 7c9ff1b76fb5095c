"""Adaptive blocks: what is measured, how blocks grow, and that the joint stays put."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
import torch

from anyorder.conditionals import chain_edges, ising, random_joint
from anyorder.errors import AnyorderError
from anyorder.samplers import adaptive, gibbs, run, stream
from anyorder.samplers.adaptive import grow, mutual_influence
from anyorder.studies.exact import Lookup, empirical_tv, floor


def _g(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def everything(rows, length, token=0):
    tokens = torch.full((rows, length), token)
    return tokens, torch.ones_like(tokens, dtype=torch.bool)


def test_influence_is_the_total_variation_a_surprise_makes():
    table = ising(chain_edges(4), 4, 0.8, field=0.3)
    tokens, free = everything(2, 4)
    found, passes = mutual_influence(table, tokens, free, torch.rand(2, 4, generator=_g(), dtype=torch.float64))
    assert passes == 2 * 5
    p = table.log_joint.exp()
    for j in range(4):
        marginal_j = p.sum([d for d in range(4) if d != j])
        surprise = int(marginal_j.argmin())  # two tokens: what is not the likelier one
        for i in range(4):
            if i == j:
                assert (found[:, j, i] == 0).all()
                continue
            pair = p.sum([d for d in range(4) if d not in (i, j)])
            pair = pair if i < j else pair.T  # [x_i, x_j]
            shift = (pair[:, surprise] / pair[:, surprise].sum() - pair.sum(1)).abs().sum() / 2
            assert float(found[0, j, i]) == pytest.approx(float(shift), abs=1e-6)


def test_influence_does_not_look_at_the_tokens_to_be_replaced():
    table = random_joint(_g(1), 3, 4)
    free = torch.tensor([[True, True, False, True]])
    u = torch.rand(1, 4, generator=_g(), dtype=torch.float64)
    one, _ = mutual_influence(table, torch.tensor([[0, 0, 2, 0]]), free, u)
    two, _ = mutual_influence(table, torch.tensor([[1, 2, 2, 1]]), free, u)
    assert torch.equal(one, two)
    assert (one[:, 2] == 0).all()
    assert (one[:, :, 2] == 0).all()


def ties(*pairs, length=6, strength=0.6):
    tie = torch.full((1, length, length), 0.01)
    for i, j in pairs:
        tie[0, i, j] = tie[0, j, i] = strength
    return tie


def blocks_of(tie, *, block, blocks, threshold=0.05, sharpness=8.0, draws=400, allowed=None):
    rows = tie.expand(draws, -1, -1)
    allowed = torch.ones(draws, tie.shape[1], dtype=torch.bool) if allowed is None else allowed.expand(draws, -1)
    keys, join = (torch.rand(draws, tie.shape[1], generator=_g(s), dtype=torch.float64) for s in (0, 1))
    return grow(rows, allowed, keys, join, block, blocks, threshold, sharpness)


def test_the_tied_go_together_and_the_untied_side_by_side():
    grown = blocks_of(ties((0, 3), (1, 4), (2, 5)), block=2, blocks=3)
    for row in grown.tolist():
        assert {frozenset(pair) for pair in row} == {frozenset((0, 3)), frozenset((1, 4)), frozenset((2, 5))}


def test_blocks_side_by_side_are_tied_by_no_more_than_the_threshold():
    tie = torch.rand(1, 8, 8, generator=_g(4))
    tie = torch.maximum(tie, tie.transpose(1, 2)) ** 3
    grown = blocks_of(tie, block=2, blocks=4, threshold=0.2)
    for row in grown.tolist():
        members = [[p for p in block if p >= 0] for block in row]
        flat = [p for block in members for p in block]
        assert len(flat) == len(set(flat))
        for a, one in enumerate(members):
            for two in members[a + 1 :]:
                assert all(tie[0, i, j] <= 0.2 for i in one for j in two)
            assert all(tie[0, one[0], p] > 0.2 for p in one[1:2])


def test_seeds_are_uniform_and_companions_follow_the_ties():
    tie = ties((0, 1), strength=0.2)
    tie[0, 0, 2] = tie[0, 2, 0] = 0.4
    grown = blocks_of(tie, block=2, blocks=1, sharpness=1.0, threshold=0.05, draws=20000)[:, 0]
    seeds = torch.bincount(grown[:, 0], minlength=6) / 20000
    assert ((seeds - 1 / 6).abs() < 4 * (5 / 36 / 20000) ** 0.5).all()
    from_zero = grown[grown[:, 0] == 0][:, 1]
    assert float((from_zero == 2).double().mean()) == pytest.approx(2 / 3, abs=0.04)
    assert (grown[grown[:, 0] == 5][:, 1] == -1).all(), "a position tied to none stays alone"


def test_only_allowed_positions_are_taken():
    allowed = torch.tensor([[True, False, True, False, True, False]])
    grown = blocks_of(ties((0, 1), (2, 4)), block=3, blocks=3, allowed=allowed)
    taken = grown[grown >= 0]
    assert set(taken.tolist()) == {0, 2, 4}


def test_one_block_leaves_the_joint_as_it_is():
    table = random_joint(_g(6), 3, 4, concentration=0.5)
    model = Lookup(table)
    start = table.sample(_g(1), 10000)
    sampler = adaptive(model, block=2, blocks=1)
    out = run(sampler, start, torch.ones_like(start, dtype=torch.bool), generator=_g(2), steps=3).tokens
    base = floor(table, 1000, _g(3))
    assert empirical_tv(table, out, 10).value < base.value + 3 * base.standard_error * 10**0.5


def test_independent_pairs_are_resampled_exactly_all_at_once():
    """Far-apart pairs, strongly tied: two passes per step for all six, and no bias from being side by side."""
    table = ising([(0, 3), (1, 4), (2, 5)], 6, 1.5, field=0.1)
    model = Lookup(table)
    tokens, free = everything(10000, 6)
    result = run(adaptive(model, block=2, blocks=3), tokens, free, generator=_g(), steps=2)
    budget = result.rows // 10000
    base = floor(table, 1000, _g(3))
    limit = base.value + 3 * base.standard_error * 10**0.5
    assert budget == 7 + 2 * 2
    assert empirical_tv(table, result.tokens, 10).value < limit
    for rival in (gibbs(model, block=2), gibbs(model, block=2, mode="sequential")):
        out = run(rival, tokens, free, generator=_g(), steps=budget).tokens  # sequential: twice the budget
        assert empirical_tv(table, out, 10).value > limit


def test_masks_are_filled_first():
    table = Lookup(random_joint(_g(2), 3, 4))
    tokens, free = everything(20, 4, token=3)
    for number, (state, _) in enumerate(
        stream(adaptive(table, block=2, blocks=1), tokens, free, generator=_g(), steps=4)
    ):
        left = (state.tokens == 3).sum(1)
        assert (left <= max(0, 4 - (number + 1))).all()


def test_another_source_of_dependence_is_asked_once():
    table = ising(chain_edges(4), 4, 1.0)
    asked = []

    def influence(tokens, free):
        asked.append(len(tokens))
        return torch.eye(4).flip(0).expand(len(tokens), 4, 4), 0  # 0-3 and 1-2

    tokens, free = everything(50, 4)
    trace = run(adaptive(table, block=2, blocks=2, influence=influence), tokens, free, generator=_g(), steps=3).trace
    assert asked == [50]
    first, last = trace.positions[..., :2], trace.positions[..., 2:]
    assert torch.equal(first + last, torch.full_like(first, 3))


def test_bad_settings_are_refused():
    table = random_joint(_g(), 2, 2)
    for options, message in [
        ({"block": 0}, "at least 1"),
        ({"blocks": 0}, "at least 1"),
        ({"threshold": 2.0}, "between 0 and 1"),
        ({"sharpness": -1.0}, "negative"),
    ]:
        with pytest.raises(AnyorderError, match=message):
            adaptive(table, **options)


def test_blocks_of_three_follow_the_law_of_one_join_after_the_other():
    """The weights change when a member joins; every ordered block has the probability of its joins multiplied."""
    tie = torch.rand(1, 4, 4, generator=_g(9))
    tie = 0.1 + 0.9 * torch.maximum(tie, tie.transpose(1, 2))
    draws, sharpness = 40000, 2.0
    grown = blocks_of(tie, block=3, blocks=1, sharpness=sharpness, draws=draws)[:, 0]
    found = Counter(map(tuple, grown.tolist()))
    for a, b, c in permutations(range(4), 3):
        nearest = {i: float(tie[0, a, i]) ** sharpness for i in range(4) if i != a}
        p = nearest[b] / sum(nearest.values()) / 4
        nearest = {i: max(float(tie[0, a, i]), float(tie[0, b, i])) ** sharpness for i in range(4) if i not in (a, b)}
        p *= nearest[c] / sum(nearest.values())
        assert abs(found[a, b, c] / draws - p) < 4 * (p * (1 - p) / draws) ** 0.5
