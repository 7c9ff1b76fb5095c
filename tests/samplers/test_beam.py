"""Beam search against the brute-force n best of exact tables."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from anyorder.conditionals import Table, chain_edges, ising, random_joint
from anyorder.errors import AnyorderError
from anyorder.samplers.beam import Rules, beam, beams

ORDERS = ["confidence", "entropy", "left-to-right", "right-to-left", "random", "given:2,0,3,1"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def brute_force(table: Table, k: int, given: dict[int, int] | None = None, allowed=None):
    """The k most probable states that agree with what is given, with log p(blanks | given)."""
    log_p = table.log_joint.flatten().clone()
    for position, token in (given or {}).items():
        log_p[table.states[:, position] != token] = -torch.inf
    log_p = log_p - torch.logsumexp(log_p, 0)
    if allowed is not None:
        fits = allowed[torch.arange(table.length), table.states].all(-1)
        log_p = log_p.masked_fill(~fits, -torch.inf)
    top = log_p.topk(min(k, int((log_p > -torch.inf).sum())))
    return table.states[top.indices], top.values


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("branch", [1, 2])
def test_a_wide_beam_is_the_exact_n_best(order, branch):
    table = random_joint(generator(1), 3, 4, concentration=0.5)
    blank = torch.zeros(4, dtype=torch.long)
    found = beam(
        table, blank, torch.ones(4, dtype=torch.bool), width=200, order=order, branch=branch, generator=generator()
    )
    states, log_p = brute_force(table, 81)
    torch.testing.assert_close(found.log_prob, log_p, atol=1e-9, rtol=0)
    assert torch.equal(found.tokens, states)
    torch.testing.assert_close(found.log_prob, table.log_prob(found.tokens), atol=1e-9, rtol=0)


def test_a_narrow_beam_finds_the_best_where_greedy_filling_cannot():
    # Marginally 0 is likeliest at both places, but (1, 1) is the likeliest pair.
    p = torch.tensor([[0.04, 0.26, 0.26], [0.10, 0.30, 0.0], [0.02, 0.02, 0.0]], dtype=torch.float64)
    table = Table(p.clamp_min(1e-12).log())
    every = torch.ones(2, dtype=torch.bool)
    assert beam(table, torch.zeros(2, dtype=torch.long), every, width=2).tokens[0].tolist() == [1, 1]
    greedy = beam(table, torch.zeros(2, dtype=torch.long), every, width=1, order="left-to-right")
    assert greedy.tokens[0].tolist() != [1, 1]


def test_given_tokens_condition_and_stay():
    table = random_joint(generator(2), 3, 4)
    tokens = torch.tensor([0, 2, 0, 1])
    free = torch.tensor([True, False, True, False])
    found = beam(table, tokens, free, width=9)
    states, log_p = brute_force(table, 9, {1: 2, 3: 1})
    assert torch.equal(found.tokens, states)
    torch.testing.assert_close(found.log_prob, log_p, atol=1e-9, rtol=0)


def test_banned_tokens_are_passed_over_and_log_prob_stays_the_models_own():
    table = random_joint(generator(3), 3, 3)
    allowed = torch.ones(3, 3, dtype=torch.bool)
    allowed[0, 1] = allowed[2, 0] = allowed[2, 1] = False
    found = beam(table, torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool), width=27, allowed=allowed)
    states, log_p = brute_force(table, 27, allowed=allowed)
    assert len(found.tokens) == 2 * 3 * 1
    assert torch.equal(found.tokens, states)
    torch.testing.assert_close(found.log_prob, log_p, atol=1e-9, rtol=0)


@pytest.mark.parametrize("branch", [1, 2])
def test_where_nothing_is_possible_nothing_is_found(branch):
    table = random_joint(generator(), 3, 3)
    allowed = torch.ones(3, 3, dtype=torch.bool)
    allowed[1] = False
    text, free = torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool)
    assert len(beam(table, text, free, allowed=allowed, branch=branch).tokens) == 0


def test_branching_returns_every_completion_once():
    table = ising(chain_edges(5), 5, 1.0, field=0.3)
    found = beam(table, torch.zeros(5, dtype=torch.long), torch.ones(5, dtype=torch.bool), width=6, branch=3)
    assert len(torch.unique(found.tokens, dim=0)) == len(found.tokens) == 6
    assert found.tokens[0].tolist() == [1] * 5
    assert bool((found.log_prob.diff() <= 1e-12).all())


def test_each_hypothesis_chooses_its_own_next_blank():
    asked = []

    class Watched(Table):
        def __call__(self, tokens, positions):
            asked.append((tokens.clone(), positions.clone()))
            return super().__call__(tokens, positions)

    # x0 = 0 makes x1 certain (0) and x2 anything else, x0 = 1 the other way round.
    p = torch.zeros(4, 4, 4, dtype=torch.float64)
    p[0, 0, 1:] = p[1, 1:, 0] = 1.0
    table = Watched(p.clamp_min(1e-12).log())
    seen = beam(table, torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool), width=6, order="entropy")
    assert seen.rows == sum(len(tokens) for tokens, _ in asked)
    tokens, positions = asked[-1]
    # The two hypotheses of weight have each filled their certain blank; the rest have probability 1e-12.
    assert sorted(tokens[:2].tolist()) == [[0, 0, table.mask_id], [1, table.mask_id, 0]]
    assert sorted(positions[:2].flatten().tolist()) == [1, 2]


def test_nothing_to_fill_is_the_text_itself():
    table = random_joint(generator(), 2, 2)
    found = beam(table, torch.tensor([0, 1]), torch.zeros(2, dtype=torch.bool))
    assert found.tokens.tolist() == [[0, 1]]
    assert found.log_prob.tolist() == [0.0]
    assert found.rows == 0


def test_bad_settings_say_so():
    table = random_joint(generator(), 2, 2)
    text, free = torch.zeros(2, dtype=torch.long), torch.ones(2, dtype=torch.bool)
    with pytest.raises(AnyorderError, match="at least 1"):
        beam(table, text, free, width=0)
    with pytest.raises(AnyorderError, match="generator"):
        beam(table, text, free, order="random")
    with pytest.raises(AnyorderError, match="repeats"):
        beam(table, text, free, order="given:0,0")
    with pytest.raises(AnyorderError, match="unknown order"):
        beam(table, text, free, order="sideways")


@pytest.mark.parametrize("order", [o for o in ORDERS if o != "random"])
@pytest.mark.parametrize("keep", [1, 3, None])
def test_texts_that_advance_together_get_what_each_gets_alone(order, keep, monkeypatch):
    monkeypatch.setattr(import_module("anyorder.samplers.beam"), "_ENOUGH", 12)  # one hypothesis of each text at a time
    table = random_joint(generator(4), 3, 5, concentration=0.3)
    g = generator(5)
    tokens = torch.randint(3, (7, 5), generator=g)
    free = torch.tensor([True, True, True, True, False]).expand(7, 5)
    fits = torch.rand((2, 3), generator=g) < 0.8
    fits[:, 0] = True
    rule = torch.randint(2, (7, 5), generator=g)
    together = beams(table, tokens, free, rules=Rules(rule, fits), width=4, keep=keep, order=order)
    for text, found in enumerate(together):
        alone = beam(table, tokens[text], free[text], allowed=fits[rule[text]], width=4, order=order)
        assert torch.equal(found.tokens, alone.tokens[:keep])
        torch.testing.assert_close(found.log_prob, alone.log_prob[:keep], atol=1e-12, rtol=0)
        assert found.rows <= alone.rows
    if keep == 1:
        assert sum(found.rows for found in together) < 7 * alone.rows


def test_a_wide_beam_over_several_texts_is_the_exact_n_best_of_each():
    table = random_joint(generator(6), 3, 4, concentration=0.5)
    last = torch.tensor([[0, 0, 0, t] for t in range(3)])
    free = torch.tensor([True, True, True, False]).expand(3, 4)
    for t, found in enumerate(beams(table, last, free, width=27, keep=6)):
        states, log_p = brute_force(table, 6, {3: t})
        assert torch.equal(found.tokens, states)
        torch.testing.assert_close(found.log_prob, log_p, atol=1e-9, rtol=0)


def test_texts_with_other_numbers_of_blanks_are_refused():
    table = random_joint(generator(), 2, 2)
    with pytest.raises(AnyorderError, match="equally many blanks"):
        beams(table, torch.zeros((2, 2), dtype=torch.long), torch.tensor([[True, True], [True, False]]))


def test_of_independent_blanks_only_the_needed_hypotheses_are_asked():
    one = torch.tensor([0.4, 0.3, 0.2, 0.07, 0.03], dtype=torch.float64)
    two = torch.tensor([0.5, 0.25, 0.15, 0.06, 0.04], dtype=torch.float64)  # surer, so it is filled first
    table = Table((one[:, None] * two).log())
    (found,) = beams(table, torch.zeros((1, 2), dtype=torch.long), torch.ones((1, 2), dtype=torch.bool), keep=3)
    states, log_p = brute_force(table, 3)
    assert torch.equal(found.tokens, states)
    # log q of the other blank does not change, so that the third best completion is known before it is asked for.
    assert found.rows == 1 + int((two.log() >= log_p[-1]).sum()) == 1 + 3


def test_a_wrong_guess_of_who_is_needed_changes_no_answer():
    asked = 0

    class Counted(Table):
        def __call__(self, tokens, positions):
            nonlocal asked
            asked += 1
            return super().__call__(tokens, positions)

    tables = [Counted(random_joint(generator(seed), 6, 2, concentration=0.2).log_joint) for seed in range(20)]
    for table in tables:
        text, free = torch.zeros((1, 2), dtype=torch.long), torch.ones((1, 2), dtype=torch.bool)
        (found,) = beams(table, text, free, width=6, keep=3)
        states, log_p = brute_force(table, 3)
        assert torch.equal(found.tokens, states)
        torch.testing.assert_close(found.log_prob, log_p, atol=1e-9, rtol=0)
    assert asked > 2 * len(tables)  # sometimes the guess was too high
