"""Metropolis on the MRF energy: its kernel, its cost, and the joint it leaves alone."""

from __future__ import annotations

import pytest
import torch

from anyorder.conditionals import random_joint
from anyorder.samplers import metropolis, run, stream, warper
from anyorder.studies.exact import Lookup, mrf_joint

V, N = 3, 3


@pytest.fixture(scope="module")
def table():
    return random_joint(torch.Generator().manual_seed(4), V, N, concentration=1.0)


def _g(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mrf_by_hand(table):
    """log Π_t q(x_t | x_-t), from the joint by plain division."""
    p = table.log_joint.exp()
    return sum((p / p.sum(t, keepdim=True)).log() for t in range(N))


def kernel(table):
    """[V^N, V^N] the exact transition matrix, entry by entry."""
    p, energy = table.log_joint.exp(), -mrf_by_hand(table)
    states = [tuple(s) for s in table.states.tolist()]
    matrix = torch.zeros(len(states), len(states), dtype=torch.float64)
    for a, x in enumerate(states):
        for i in range(N):
            line = p[tuple(slice(None) if d == i else x[d] for d in range(N))]
            q = line / line.sum()
            for token in range(V):
                y = (*x[:i], token, *x[i + 1 :])
                accept = min(1.0, float((energy[x] - energy[y]).exp() * q[x[i]] / q[token]))
                b = states.index(y)
                matrix[a, b] += q[token] / N * accept
                matrix[a, a] += q[token] / N * (1 - accept)
    return matrix


def test_the_mrf_joint_is_stationary_and_the_truth_is_not(table):
    target, matrix = mrf_joint(table).log_joint.exp().flatten(), kernel(table)
    by_hand = mrf_by_hand(table).exp().flatten()
    torch.testing.assert_close(target, by_hand / by_hand.sum(), atol=1e-12, rtol=0)
    torch.testing.assert_close(target @ matrix, target, atol=1e-12, rtol=0)
    truth = table.log_joint.exp().flatten()
    assert (truth @ matrix - truth).abs().sum() > 0.01


@pytest.mark.parametrize("steps", [1, 3])
def test_steps_follow_the_exact_kernel(table, steps):
    rows, start = 20000, 14
    tokens = table.states[start].repeat(rows, 1)
    free = torch.ones_like(tokens, dtype=torch.bool)
    out = run(metropolis(Lookup(table)), tokens, free, generator=_g(), steps=steps).tokens
    law = torch.linalg.matrix_power(kernel(table), steps)[start]
    index = (out * V ** torch.arange(N - 1, -1, -1)).sum(1)
    found = torch.bincount(index, minlength=V**N) / rows
    assert ((found - law).abs() <= 4.5 * (law * (1 - law) / rows).sqrt() + 1e-4).all()


def test_the_kept_energy_is_the_energy_and_a_step_costs_at_most_n_rows(table, counting):
    counted = counting(table)
    tokens = torch.zeros((40, N), dtype=torch.long)
    free = torch.ones_like(tokens, dtype=torch.bool)
    energy = -mrf_by_hand(table)
    for number, (state, info) in enumerate(stream(metropolis(counted), tokens, free, generator=_g(), steps=12)):
        torch.testing.assert_close(state.energy, energy[tuple(state.tokens.T)], atol=1e-9, rtol=0)
        assert info.rows <= 40 * (N if number else 2 * N - 1)


def test_energy_is_over_the_free_positions_only(table):
    tokens = torch.tensor([[0, 2, 1]]).repeat(10, 1)
    free = torch.tensor([[True, False, True]]).repeat(10, 1)
    state = run(metropolis(table), tokens, free, generator=_g(), steps=4).state
    p = table.log_joint.exp()
    terms = (p / p.sum(0, keepdim=True)).log() + (p / p.sum(2, keepdim=True)).log()
    torch.testing.assert_close(state.energy, -terms[tuple(state.tokens.T)], atol=1e-9, rtol=0)


def test_acceptance_is_reported(table):
    tokens = torch.zeros((500, N), dtype=torch.long)
    result = run(metropolis(table), tokens, torch.ones_like(tokens, dtype=torch.bool), generator=_g(), steps=10)
    assert result.trace.accepted.shape == (10, 500)
    assert 0.2 < result.trace.acceptance < 1
    moved = result.trace.accepted.double().mean()
    assert float(moved) == pytest.approx(result.trace.acceptance)


def test_a_warped_proposal_keeps_the_target(table):
    target = mrf_joint(table)
    rows = 20000
    tokens = target.sample(_g(1), rows)
    sampler = metropolis(Lookup(table), warper=warper(temperature=2.0))
    out = run(sampler, tokens, torch.ones_like(tokens, dtype=torch.bool), generator=_g(), steps=5).tokens
    law = target.log_joint.exp().flatten()
    index = (out * V ** torch.arange(N - 1, -1, -1)).sum(1)
    found = torch.bincount(index, minlength=V**N) / rows
    assert ((found - law).abs() <= 4.5 * (law * (1 - law) / rows).sqrt() + 1e-4).all()


def test_an_impossible_start_is_left(table):
    holes = table.log_joint.clone()
    holes[0, 0, :] = -torch.inf
    from anyorder.conditionals import Table

    tokens = torch.zeros((200, N), dtype=torch.long)
    out = run(metropolis(Table(holes)), tokens, tokens == 0, generator=_g(), steps=40).tokens
    assert torch.isfinite(holes[tuple(out.T)]).all()
