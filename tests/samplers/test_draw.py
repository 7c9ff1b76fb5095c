"""Drawing and asking, against direct computation."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.conditionals import random_joint
from anyorder.samplers import draw as draw_module
from anyorder.samplers.draw import ask, draw_from, entropy_of, first, first_among, inverse_cdf, pack, place, uniforms


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 1e-12, 0.1, 1.0, 3.0]), min_size=1, max_size=8),
    u=st.floats(0, 1, exclude_max=True),
)
def test_inverse_cdf_is_the_first_token_past_u_and_never_an_impossible_one(weights, u):
    if not sum(weights):
        return
    p = np.array(weights) / sum(weights)
    token = int(inverse_cdf(torch.tensor(weights, dtype=torch.float64).log(), torch.tensor(u, dtype=torch.float64)))
    assert p[token] > 0
    assert p[:token].sum() <= u + 1e-12
    assert u <= p[: token + 1].sum() + 1e-12


def test_a_uniform_next_to_one_still_draws_a_possible_token():
    scores = torch.tensor([0.3, 0.1, -torch.inf, -torch.inf]).repeat(1000, 1) + torch.randn(
        1000, 1, generator=torch.Generator().manual_seed(0)
    )
    u = torch.full((1000,), 1 - 2.0**-53, dtype=torch.float64)
    assert (inverse_cdf(scores, u) == 1).all()


def test_tails_of_a_large_vocabulary_are_drawn_as_often_as_they_should():
    # Half the mass on one token, half over 2^20: float32 running sums would lose a good part of them.
    scores = torch.zeros(2**20 + 1)
    scores[0] = float(torch.log(torch.tensor(2.0**20)))
    u = torch.linspace(0, 1, 21, dtype=torch.float64)[:-1]
    tokens = torch.stack([inverse_cdf(scores, x) for x in u])
    assert (tokens[u < 0.5] == 0).all()
    late = u > 0.5
    expected = ((u[late] - 0.5) * 2 * 2**20).floor().long() + 1
    assert ((tokens[late] - expected).abs() <= 1).all()


def test_log_prob_and_entropy_are_the_conditionals_own():
    log_q = torch.log_softmax(torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(0)), -1)
    log_q[0, 0, 2] = -torch.inf
    log_q = torch.log_softmax(log_q, -1)
    got = draw_from(log_q, torch.rand(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64), None)
    p = log_q.double().exp().numpy()
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)
    np.testing.assert_allclose(entropy_of(log_q).numpy(), entropy, atol=1e-6)
    for b in range(5):
        for k in range(3):
            assert got.log_prob[b, k] == log_q[b, k, got.tokens[b, k]].double()


def test_place_ignores_minus_one_even_beside_position_zero():
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])
    positions = torch.tensor([[0, -1], [-1, -1]])
    assert place(tokens, positions, torch.tensor([[9, 8], [7, 7]])).tolist() == [[9, 2, 3], [4, 5, 6]]
    assert place(tokens, positions, 0).tolist() == [[0, 2, 3], [4, 5, 6]]
    assert tokens.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_pack_first_and_choose():
    mask = torch.tensor([[True, False, True, True], [False, False, False, False], [False, True, False, False]])
    assert pack(mask).tolist() == [[0, 2, 3], [-1, -1, -1], [1, -1, -1]]
    assert pack(mask[1:2]).tolist() == [[-1]]
    rank = torch.tensor([[3.0, 1.0, torch.inf, 2.0]]).double()
    assert first(rank, torch.tensor([4])).tolist() == [[1, 3, 0]]
    assert first_among(rank, torch.tensor([[True, False, True, True]]), 1).tolist() == [[3]]
    assert first_among(rank, torch.tensor([[False, False, True, False]]), 1).tolist() == [[-1]]
    assert first_among(rank, torch.tensor([[True, True, True, True]]), 2).tolist() == [[1, 3]]


def test_asking_in_chunks_changes_nothing(monkeypatch, counting):
    table = random_joint(torch.Generator().manual_seed(0), 3, 4)
    model = counting(table)
    tokens = torch.randint(0, 4, (9, 4), generator=torch.Generator().manual_seed(1))
    positions = pack(tokens == 3)

    def read(log_q, rows):
        return log_q.sum(-1), rows

    (whole, rows), sent = ask(table, tokens, positions, read)
    monkeypatch.setattr(draw_module, "_CELLS_CPU", 2 * positions.shape[1] * 3)
    monkeypatch.setattr(draw_module, "_TOKENS", 4)
    (cut, cut_rows), cut_sent = ask(model, tokens, positions, read)
    assert torch.equal(whole, cut)
    assert torch.equal(rows, cut_rows)
    assert sent == cut_sent == int((tokens == 3).any(1).sum())
    assert all(len(part) <= 2 for part in model.rows)
    assert (whole[~(tokens == 3).any(1)] == 0).all()


def test_uniforms_are_explicit_and_double():
    g = torch.Generator().manual_seed(3)
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    (u,) = uniforms(g, torch.zeros(2, 5, dtype=torch.long), 1)
    assert u.dtype == torch.float64
    assert u.shape == (2, 5)
    assert torch.equal(before, torch.random.get_rng_state())
