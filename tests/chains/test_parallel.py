from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given

from anyorder.chains.mixing import divergence
from anyorder.chains.parallel import (
    block_loss,
    decoding_law,
    entropy_profile,
    even_schedule,
    schedule_loss,
    total_correlation,
)
from anyorder.chains.stutter import stutter_rates, stutter_share
from anyorder.chains.transition import block_law, joint, law, product_law
from anyorder.chains.worlds import World, make_world
from anyorder.conditionals.table import Table
from anyorder.errors import AnyorderError
from chains.small_worlds import exact, worlds


def best_product_loss(table: Table, block: tuple[int, ...]) -> float:
    """E KL(p(x_S | x_-S) ‖ ∏_t p(x_t | x_-S)) for one block, straight from its definition."""
    rest = tuple(d for d in range(table.length) if d not in block)
    weight = joint(table).transpose(*rest, *block).reshape(-1, table.vocab_size ** len(block)).sum(-1)
    conditional = block_law(table, block)
    best = product_law(conditional, table.vocab_size)
    some = conditional > 0
    terms = np.zeros_like(conditional)
    terms[some] = conditional[some] * np.log(conditional[some] / best[some])
    return float(weight @ terms.sum(-1))


@given(worlds())
@exact
def test_total_correlation_is_the_loss_of_the_best_product(world: World) -> None:
    n = world.table.length
    profile = entropy_profile(world.table)
    for k in range(1, n + 1):
        direct = np.mean([best_product_loss(world.table, s) for s in combinations(range(n), k)])
        assert block_loss(profile, k) == pytest.approx(float(direct), abs=1e-10)


def test_no_product_is_nearer_than_the_marginals() -> None:
    table = make_world("random", n=3, coupling=1.0).table
    p = joint(table)
    best = best_product_loss(table, (0, 1, 2))
    rng = np.random.default_rng(0)
    for _ in range(200):
        near = [m * np.exp(0.1 * rng.standard_normal(2)) for m in (p.sum((1, 2)), p.sum((0, 2)), p.sum((0, 1)))]
        a, b, c = (m / m.sum() for m in near)
        assert divergence(p.ravel(), np.einsum("a,b,c->abc", a, b, c).ravel()) >= best - 1e-12


@given(worlds())
@exact
def test_decoding_in_few_steps(world: World) -> None:
    """N steps are the truth, one step is the product; between, the law is no further than its schedule's price."""
    table, n = world.table, world.table.length
    profile, truth = entropy_profile(table), law(table)
    losses = [schedule_loss(profile, even_schedule(n, m)) for m in range(1, n + 1)]
    distances = [divergence(truth, decoding_law(table, even_schedule(n, m))) for m in range(1, n + 1)]
    assert losses[0] == pytest.approx(distances[0], abs=1e-10)
    assert losses[-1] == 0
    assert distances[-1] == pytest.approx(0, abs=1e-10)
    assert all(d <= loss + 1e-10 for d, loss in zip(distances, losses, strict=True))


def test_schedule_price_is_the_mean_kl_of_its_orders() -> None:
    table = make_world("random", n=4, coupling=1.0).table
    p = joint(table)
    losses = []
    for order in permutations(range(4)):
        first, second = order[:2], order[2:]
        q = np.ones_like(p)
        for t in first:
            q = q * p.sum(axis=tuple(d for d in range(4) if d != t), keepdims=True)
        given = p.sum(axis=second, keepdims=True)
        for t in second:
            other = tuple(d for d in second if d != t)
            q = q * p.sum(axis=other, keepdims=True) / given
        losses.append(divergence(p.ravel(), q.ravel()))
    assert schedule_loss(entropy_profile(table), [2, 2]) == pytest.approx(float(np.mean(losses)), abs=1e-10)


def test_low_temperature_takes_the_mode() -> None:
    table = make_world("random", n=3, coupling=1.0, seed=1).table
    p = decoding_law(table, [1, 1, 1], temperature=0.01)
    q = decoding_law(table, [3], temperature=1.0)
    assert p.max() > 0.3
    assert q.sum() == pytest.approx(1.0)


def test_two_equal_readings_stutter_a_quarter_of_the_time() -> None:
    """Remark 1: strongly held readings, each position on its own: p(1 - p) = 1/4; in N steps, never."""
    rates = {(s.method, s.steps, s.block): s for s in stutter_rates(4, [20.0], [1, 2, 4], [1.0])}
    one, all_steps = rates["decode", 1, None], rates["decode", 4, None]
    assert one.rate == pytest.approx(0.25, abs=1e-4)
    assert one.truth < 1e-4
    assert all_steps.rate == pytest.approx(all_steps.truth, abs=1e-12)
    assert one.rate > rates["decode", 2, None].rate > all_steps.rate


def test_without_readings_a_repeat_is_chance() -> None:
    rates = stutter_rates(3, [0.0], [1, 3], [1.0, 0.5])
    assert all(s.rate == pytest.approx(0.25) for s in rates)  # four words, all alike
    assert {s.temperature for s in rates if s.method == "decode"} == {1.0, 0.5}


def test_stutter_share_counts_neighbours() -> None:
    table = make_world("random", n=3).table
    p = np.zeros(8)
    p[int("001", 2)] = 0.5  # one of two neighbours equal
    p[int("010", 2)] = 0.5  # none
    assert stutter_share(table, p) == pytest.approx(0.25)


def test_bad_input() -> None:
    table = make_world("random", n=3).table
    with pytest.raises(AnyorderError, match="use 1 to 3"):
        even_schedule(3, 4)
    with pytest.raises(AnyorderError, match="cannot commit 2"):
        decoding_law(table, [2])
    with pytest.raises(AnyorderError, match="above 0"):
        decoding_law(table, [3], temperature=0.0)
    with pytest.raises(AnyorderError, match="do not fit"):
        total_correlation(entropy_profile(table), 2, 2)
