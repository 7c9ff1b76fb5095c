"""Scores against an exact joint: the chain rule, the any-order mean, and the standard error of its estimate."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
import torch
from torch import Tensor

from anyorder.conditionals import Table, chain_edges, ising, random_joint
from anyorder.errors import AnyorderError
from anyorder.scoring import bound, chain, left_to_right, pll, pll_word, random_ranks
from anyorder.scoring.bound import strata


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def everything(tokens: Tensor) -> Tensor:
    return torch.ones_like(tokens, dtype=torch.bool)


class Incoherent(Table):
    """Conditionals that belong to no joint: those of a table, tilted by how much is hidden. Orders disagree on them."""

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        hidden = (tokens == self.mask_id).double().mean(-1)[:, None, None]
        tilt = torch.linspace(-1, 1, self.vocab_size, dtype=torch.float64)
        return (super().__call__(tokens, positions) * (1 - 0.5 * hidden) + tilt * hidden).log_softmax(-1)


def incoherent(vocab_size: int, length: int, seed: int = 0) -> Incoherent:
    return Incoherent(random_joint(generator(seed), vocab_size, length, 0.5).log_joint)


def mean_over_orders(table: Table, x: Tensor) -> float:
    """L(x) by the definition, eq. 8: every order, step by step."""
    orders = torch.tensor(list(permutations(range(table.length))))
    states, asked = [], []
    for order in orders:
        state = torch.full_like(x, table.mask_id)
        for position in order:
            states.append(state.clone())
            asked.append(position)
            state[position] = x[position]
    position = torch.stack(asked)
    log_q = table(torch.stack(states), position[:, None])[:, 0]  # [orders * N, V]
    return float(log_q.gather(-1, x[position][:, None]).sum()) / len(orders)


def test_chain_is_the_true_log_probability_along_every_order() -> None:
    table = random_joint(generator(0), 3, 4)
    x = table.sample(generator(1), 5)
    for order in permutations(range(4)):
        rank = torch.tensor(order).argsort().expand(5, 4)
        torch.testing.assert_close(chain(table, x, everything(x), rank).sum(-1), table.log_prob(x))


def test_chain_terms_are_the_conditionals_of_their_turn() -> None:
    table = incoherent(3, 4)
    x = table.sample(generator(1), 1)
    order = [2, 0, 3, 1]
    terms = chain(table, x, everything(x), torch.tensor(order).argsort()[None])
    state = torch.full_like(x, table.mask_id)
    for position in order:
        expected = table(state, torch.tensor([[position]]))[0, 0, x[0, position]]
        torch.testing.assert_close(terms[0, position], expected)
        state[0, position] = x[0, position]


def test_chain_of_some_positions_is_conditional_on_the_rest() -> None:
    table = random_joint(generator(0), 3, 4)
    x = table.sample(generator(1), 1)
    free = torch.tensor([[False, True, False, True]])
    rows = (table.states[:, [0, 2]] == x[0, [0, 2]]).all(-1)
    marginal = torch.logsumexp(table.log_joint.flatten()[rows], 0)
    for ranks in (left_to_right(free), random_ranks(free, [generator(3)])):
        terms = chain(table, x, free, ranks)
        torch.testing.assert_close(terms.sum(), table.log_prob(x)[0] - marginal)
        assert not terms[~free].any()


def test_pll_and_pll_word_ask_what_their_papers_say() -> None:
    table = incoherent(3, 5)
    x = table.sample(generator(1), 3)
    words = torch.tensor([[0, 1, 1, 1, 2]]).expand(3, 5)
    plain, word = pll(table, x, everything(x)), pll_word(table, x, everything(x), words)
    for i, hidden in enumerate([[0], [1, 2, 3], [2, 3], [3], [4]]):
        for terms, hide in ((plain, [i]), (word, hidden)):
            asked = x.clone()
            asked[:, hide] = table.mask_id
            expected = table(asked, torch.full((3, 1), i))[:, 0].gather(-1, x[:, i : i + 1])[:, 0]
            torch.testing.assert_close(terms[:, i], expected)


def test_random_orders_are_uniform_and_each_text_has_its_own() -> None:
    free = torch.tensor([[True, False, True, True]]).expand(6000, 4)
    ranks = random_ranks(free, [generator(s) for s in range(6000)])[:, [0, 2, 3]]
    _, counts = ranks.unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 20.5  # chi-squared, 5 degrees of freedom, p = 0.001
    assert torch.equal(random_ranks(free[:2], [generator(7), generator(8)])[1:], random_ranks(free[:1], [generator(8)]))


def test_bound_expects_the_mean_of_the_chain_over_all_orders() -> None:
    table = incoherent(3, 5)
    x = table.sample(generator(1), 1)[0]
    truth = mean_over_orders(table, x)
    runs = 2000
    for samples in (2, 7, 16):
        rows = x.expand(runs, 5)
        shares, _ = bound(table, rows, everything(rows), [generator(s) for s in range(runs)], samples)
        value = shares.sum(-1)
        assert abs(float(value.mean()) - truth) < 3 * float(value.std()) / runs**0.5


def test_bound_of_a_coherent_model_is_its_log_probability() -> None:
    table = random_joint(generator(0), 3, 5)
    x = table.sample(generator(1), 1)
    rows = x.expand(4000, 5)
    value = bound(table, rows, everything(rows), [generator(s) for s in range(4000)])[0].sum(-1)
    assert abs(float(value.mean() - table.log_prob(x))) < 3 * float(value.std()) / 4000**0.5


@pytest.mark.parametrize("samples", [8, 16, 32])
@pytest.mark.parametrize("world", ["incoherent", "ising"])
def test_bound_states_an_honest_standard_error(world: str, samples: int) -> None:
    table = incoherent(3, 6, seed=2) if world == "incoherent" else ising(chain_edges(8), 8, 0.6, 0.3)
    x = table.sample(generator(1), 1)[0]
    truth = mean_over_orders(table, x) if world == "incoherent" else float(table.log_prob(x[None]))
    rows = x.expand(500, table.length)
    shares, error = bound(table, rows, everything(rows), [generator(s) for s in range(500)], samples)
    covered = ((shares.sum(-1) - truth).abs() <= 1.96 * error).double().mean()
    assert 0.92 <= float(covered) <= 0.98


def test_bound_of_one_token_or_none_has_no_error() -> None:
    table = random_joint(generator(0), 3, 3)
    x = table.sample(generator(1), 2)
    free = torch.tensor([[False, True, False], [False, False, False]])
    shares, error = bound(table, x, free, [generator(0), generator(1)])
    torch.testing.assert_close(shares.sum(-1), chain(table, x, free, left_to_right(free)).sum(-1))
    assert error.tolist() == pytest.approx([0.0, 0.0], abs=1e-12)


def test_bound_draws_the_same_masks_whatever_else_is_in_the_batch() -> None:
    table = incoherent(2, 6)
    x = table.sample(generator(1), 3)
    free = everything(x)
    free[1, 2:] = False
    together = bound(table, x, free, [generator(s) for s in (5, 6, 7)])
    for b in range(3):
        alone = bound(table, x[b : b + 1], free[b : b + 1], [generator(5 + b)])
        torch.testing.assert_close(alone[0][0], together[0][b])
        torch.testing.assert_close(alone[1][0], together[1][b])


@pytest.mark.parametrize("samples", [10**12, 2**63 - 1])
def test_bound_refuses_more_masks_than_memory_holds(samples: int) -> None:
    table = random_joint(generator(0), 3, 3)
    x = torch.zeros(1, 3, dtype=torch.long)
    with pytest.raises(AnyorderError, match="lower --samples"):
        bound(table, x, everything(x), [generator(0)], samples)


def test_bound_needs_two_samples() -> None:
    table = random_joint(generator(0), 2, 2)
    x = table.sample(generator(1), 1)
    with pytest.raises(AnyorderError, match="at least 2 samples"):
        bound(table, x, everything(x), [generator(0)], samples=1)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 127])
def test_strata_cover_every_count_once(size: int) -> None:
    for samples in (2, 8, 16, 33, 600):
        edges = strata(samples, size)
        assert (edges[0], edges[-1]) == (0, size)
        assert all(a < b for a, b in pairwise(edges))
        assert samples // (len(edges) - 1) >= min(samples, 4)
