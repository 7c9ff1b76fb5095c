"""Algorithm 1 on exact tables."""

from __future__ import annotations

import pytest
import torch

from anyorder.conditionals import ModelOrdered, Reread, random_joint
from anyorder.conditionals.restricted import RestrictedOrdered
from anyorder.errors import AnyorderError
from anyorder.samplers import any_order, run
from anyorder.samplers.orders import ORDERS, UNCERTAINTY
from tiny import tiny_model


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def table():
    return random_joint(generator(), 3, 5, concentration=0.5)


def blanks(table, rows):
    tokens = torch.full((rows, table.length), table.mask_id)
    return tokens, torch.ones_like(tokens, dtype=torch.bool)


@pytest.mark.parametrize("order", [*ORDERS, "given:2,0,4,1,3"])
def test_the_log_prob_of_a_text_is_that_of_the_joint_along_any_order(table, order):
    result = run(any_order(table, order=order), *blanks(table, 50), generator=generator())
    torch.testing.assert_close(result.log_prob, table.log_prob(result.tokens), atol=1e-9, rtol=0)
    assert result.rows == 5 * 50


@pytest.mark.parametrize("order", [*ORDERS, "given:2,0,4,1,3"])
def test_each_position_is_filled_once_in_the_order_asked_for(table, order):
    trace = run(any_order(table, order=order), *blanks(table, 40), generator=generator()).trace
    visited = trace.positions[:, :, 0].T  # [B, T]
    assert torch.equal(visited.sort(1).values, torch.arange(5).expand(40, 5))
    if order == "left-to-right":
        assert (visited == torch.arange(5)).all()
    if order == "right-to-left":
        assert (visited == torch.arange(4, -1, -1)).all()
    if order.startswith("given"):
        assert (visited == torch.tensor([2, 0, 4, 1, 3])).all()
    if order == "random":
        assert len(torch.unique(visited, dim=0)) > 20, "each row its own order"


def test_random_orders_are_uniform(table):
    trace = run(any_order(table), *blanks(table, 6000), generator=generator()).trace
    orders = trace.positions[:3, :, 0].T  # the first three of five: 60 possible beginnings
    count = torch.unique(orders, dim=0, return_counts=True)[1].double()
    assert len(count) == 60
    # Pearson's χ² with 59 degrees of freedom: mean 59, standard deviation √118.
    assert abs(((count - 100) ** 2 / 100).sum() - 59) < 4 * 118**0.5


@pytest.mark.parametrize("order", ["confidence", "entropy"])
def test_adaptive_orders_take_the_most_certain_blank(table, order):
    sampler = any_order(table, order=order)
    tokens, free = blanks(table, 20)
    state, g = sampler.init(tokens, free), generator()
    for _ in range(5):
        before = state
        state, info = sampler.step(g, state)
        for row in range(20):
            still = before.open[row].nonzero().squeeze(1)
            log_q = table(before.tokens[row : row + 1], still[None])
            assert info.positions[row, 0] == still[UNCERTAINTY[order](log_q)[0].argmin()]


def test_given_tokens_condition(table):
    tokens = torch.tensor([[0, 2, 1, 0, 1]]).repeat(4000, 1)
    free = torch.tensor([True, False, False, True, False]).expand(4000, 5)
    out = run(any_order(table), tokens, free, generator=generator()).tokens
    exact = table.log_joint[:, 2, 1, :, 1].exp()
    exact = exact / exact.sum()
    count = torch.zeros(3, 3, dtype=torch.float64)
    count.index_put_((out[:, 0], out[:, 3]), torch.ones(4000, dtype=torch.float64), accumulate=True)
    error = (exact * (1 - exact) / 4000).sqrt()
    assert ((count / 4000 - exact).abs() < 4 * error).all()


def test_an_order_per_row_with_shorter_rows(table):
    tokens, free = blanks(table, 2)
    free[1, [0, 3]] = False
    tokens[1, [0, 3]] = 0
    order = torch.tensor([[4, 3, 2, 1, 0], [2, 4, 1, -1, -1]])
    trace = run(any_order(table, order=order), tokens, free, generator=generator()).trace
    assert trace.positions[:, :, 0].T.tolist() == order.tolist()


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("given:0,1,1,2,3", "repeats"),
        ("given:0,1,2,3", "omits"),
        ("given:0,1,2,3,9", "outside"),
        ([0, 1, 2, 3, -2], "outside"),
        ("given:a,b", "whole numbers"),
        ("given:", "whole numbers"),
        ("leftward", "unknown order"),
    ],
)
def test_bad_orders_are_one_clear_line(table, order, message):
    with pytest.raises(AnyorderError, match=message) as error:
        run(any_order(table, order=order), *blanks(table, 2), generator=generator())
    assert "\n" not in str(error.value)


def test_an_order_that_names_a_fixed_position_is_refused(table):
    tokens, free = blanks(table, 1)
    free[0, 2] = False
    with pytest.raises(AnyorderError, match="not free"):
        run(any_order(table, order="given:0,1,2,3,4"), tokens, free, generator=generator())


@pytest.mark.parametrize("order", [*ORDERS, "given:2,0,4,1,3"])
def test_read_in_order_a_table_gives_the_same_texts(table, order):
    full = run(any_order(table, order=order), *blanks(table, 50), generator=generator())
    kept = run(any_order(Reread(table), order=order), *blanks(table, 50), generator=generator())
    assert torch.equal(kept.tokens, full.tokens)
    assert torch.equal(kept.trace.positions, full.trace.positions)
    torch.testing.assert_close(kept.log_prob, full.log_prob, atol=1e-12, rtol=0)


@pytest.fixture(scope="module")
def in_order():
    model = tiny_model("bert").double()
    with torch.no_grad():
        model.cls.predictions.bias[0] = -1e4  # padding is no word
    return ModelOrdered(model, mask_id=4, pad_id=0, max_length=60, untrained=True)


@pytest.mark.parametrize("order", ["random", "left-to-right", "confidence"])
def test_a_model_read_in_order_draws_by_the_chain_it_scores_by(in_order, order):
    tokens = torch.tensor([[2, *range(10, 20), 3, 0], [2, *range(20, 31), 3], [2, 31, 32, 3, *[0] * 9]])
    free = (tokens >= 10) & (tokens % 4 > 0)
    result = run(any_order(in_order, order=order), tokens, free, generator=generator())
    assert torch.equal(result.tokens[~free], tokens[~free])
    sigma = result.trace.positions[:, :, 0].T
    expected = in_order.chain(result.tokens, ~free, sigma)
    torch.testing.assert_close(result.log_prob, expected.sum(1), atol=1e-9, rtol=0)


def test_a_model_read_in_order_draws_from_its_own_law(in_order):
    """Two blanks, three words allowed in each: nine texts, whose law is worked out by asking."""
    words = torch.tensor([10, 20, 30])
    allowed = torch.zeros((4, in_order.vocab_size), dtype=torch.bool)
    allowed[:, words] = True
    model = RestrictedOrdered(in_order, allowed)
    n = 20_000
    tokens = torch.tensor([[2, 4, 4, 3]]).repeat(n, 1)
    free = tokens == 4
    drawn = run(any_order(model, order="right-to-left"), tokens, free, generator=generator()).tokens
    every = torch.tensor([[2, int(a), int(b), 3] for a in words for b in words])
    given = torch.tensor([[True, False, False, True]]).expand(9, 4)
    p = model.chain(every, given, torch.tensor([[2, 1]]).expand(9, 2)).sum(1).exp()
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-9)
    count = torch.stack([(drawn == text).all(1).sum() for text in every]).double()
    assert float(((count - n * p) ** 2 / (n * p)).sum()) < 8 + 4 * 16**0.5  # Pearson's χ², 8 degrees of freedom


def test_a_memory_is_not_shared_between_runs(in_order):
    tokens = torch.tensor([[2, 4, 4, 4, 3]])
    sampler = any_order(in_order)
    one = run(sampler, tokens, tokens == 4, generator=generator(1)).tokens
    state = sampler.init(tokens, tokens == 4)
    later, _ = sampler.step(generator(1), state)
    with pytest.raises(AnyorderError, match="has been read on with"):
        sampler.step(generator(1), state)
    assert torch.equal(run(sampler, tokens, tokens == 4, generator=generator(1)).tokens, one)
    assert int(later.open.sum()) == 2
