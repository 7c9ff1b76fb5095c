"""Parallel decoding: schedules, commit rules, the bias they buy, and the seam for pairs."""

from __future__ import annotations

import pytest
import torch

from anyorder.conditionals import Table, ising, random_joint
from anyorder.errors import AnyorderError
from anyorder.samplers import any_order, parallel, run
from anyorder.samplers.draw import entropy_of, inverse_cdf
from anyorder.samplers.orders import UNCERTAINTY
from anyorder.samplers.parallel import COMMITS
from anyorder.samplers.warpers import warper
from anyorder.studies.exact import empirical_tv, floor


def _g(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def table():
    return random_joint(_g(5), 3, 5, concentration=0.6)


def blanks(table, rows):
    tokens = torch.full((rows, table.length), table.mask_id)
    return tokens, tokens == table.mask_id


def committed(trace):
    return (trace.positions >= 0).sum(-1)  # [T, B]


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("schedule", ["linear", "cosine"])
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 50])
def test_every_blank_is_filled_once_in_the_steps_asked_for(table, commit, schedule, steps):
    result = run(parallel(table, steps=steps, commit=commit, schedule=schedule), *blanks(table, 8), generator=_g())
    assert len(result.trace) == min(steps, 5)
    visited = result.trace.positions.permute(1, 0, 2).flatten(1)
    for row in visited:
        assert sorted(row[row >= 0].tolist()) == list(range(5))
    assert (committed(result.trace) >= 1).all()
    assert result.rows == 8 * min(steps, 5)


def test_linear_shares_are_even_and_cosine_starts_slowly():
    table = ising([], 8, 0.0)
    linear = committed(run(parallel(table, steps=4), *blanks(table, 1), generator=_g()).trace)
    assert linear[:, 0].tolist() == [2, 2, 2, 2]
    cosine = committed(run(parallel(table, steps=4, schedule="cosine"), *blanks(table, 1), generator=_g()).trace)
    assert cosine[:, 0].tolist() == sorted(cosine[:, 0].tolist())
    assert cosine[0, 0] < 2 < cosine[-1, 0]


def test_rows_of_different_lengths_keep_their_own_schedule(table):
    tokens, free = blanks(table, 2)
    free[1, 2:] = False
    tokens[1, 2:] = 0
    trace = run(parallel(table, steps=3), tokens, free, generator=_g()).trace
    assert committed(trace).T.tolist() == [[1, 2, 2], [1, 1, 0]]


@pytest.mark.parametrize("commit", sorted(UNCERTAINTY))
def test_the_least_uncertain_are_committed(table, commit):
    sampler = parallel(table, steps=2, commit=commit)
    state, g = sampler.init(*blanks(table, 6)), _g()
    for _ in range(2):
        before = state
        state, info = sampler.step(g, state)
        for row in range(6):
            still = before.open[row].nonzero().squeeze(1)
            score = UNCERTAINTY[commit](table(before.tokens[row : row + 1], still[None]))[0]
            taken = info.positions[row][info.positions[row] >= 0]
            assert taken.tolist() == still[score.argsort(stable=True)[: len(taken)]].tolist()


@pytest.mark.parametrize("epsilon", [0.0, 0.8, 1.7, 100.0])
def test_the_entropy_bound_is_the_longest_prefix_under_epsilon(table, epsilon):
    sampler = parallel(table, epsilon=epsilon, commit="entropy")
    state, g = sampler.init(*blanks(table, 10)), _g()
    while not state.done.all():
        before = state
        state, info = sampler.step(g, state)
        for row in range(10):
            still = before.open[row].nonzero().squeeze(1)
            if not len(still):
                continue
            entropy = entropy_of(table(before.tokens[row : row + 1], still[None]))[0].sort().values
            fits = int((entropy.cumsum(0) <= epsilon).sum())
            assert (info.positions[row] >= 0).sum() == max(1, fits)


def test_epsilon_with_steps_never_takes_longer(table):
    trace = run(parallel(table, epsilon=0.0, steps=2), *blanks(table, 4), generator=_g()).trace
    assert len(trace) == 2


def test_one_step_draws_the_product_of_the_marginals(table):
    out = run(parallel(table, steps=1), *blanks(table, 10000), generator=_g()).tokens
    p = table.log_joint.exp()
    log_product = torch.zeros_like(p)
    for t in range(5):
        marginal = p.sum([d for d in range(5) if d != t])
        log_product = log_product + marginal.log().view([-1 if d == t else 1 for d in range(5)])
    product = Table(log_product)
    base = floor(product, 1000, _g(1))
    assert empirical_tv(product, out, 10).value < base.value + 4 * base.standard_error * 10**0.5
    assert empirical_tv(table, out, 10).value > 2 * base.value, "which is not the joint"


def test_one_blank_per_step_in_a_random_order_is_algorithm_1(table):
    one = run(parallel(table, steps=5, commit="random"), *blanks(table, 30), generator=_g()).tokens
    assert torch.equal(one, run(any_order(table), *blanks(table, 30), generator=_g()).tokens)


def test_the_seam_for_pairs_can_make_two_at_a_time_exact(table):
    four = random_joint(_g(2), 3, 4, concentration=0.4)

    def exact_pairs(tokens, positions, log_q, u):
        """The first of a pair from its conditional, the second given the first: their joint, drawn exactly."""
        first = inverse_cdf(log_q[:, 0], u[:, 0])
        shown = tokens.scatter(1, positions[:, :1], first[:, None])
        second = inverse_cdf(four(shown, positions[:, 1:])[:, 0], u[:, 1])
        return torch.stack([first, second], 1), len(tokens)

    plain = run(parallel(four, steps=2), *blanks(four, 10000), generator=_g())
    paired = run(parallel(four, steps=2, pair_draw=exact_pairs), *blanks(four, 10000), generator=_g())
    base = floor(four, 1000, _g(1))
    limit = base.value + 3 * base.standard_error * 10**0.5
    assert empirical_tv(four, paired.tokens, 10).value < limit < empirical_tv(four, plain.tokens, 10).value
    assert paired.rows == 2 * plain.rows


def test_bad_settings_are_refused(table):
    for options, message in [
        ({}, "steps or epsilon"),
        ({"steps": 0}, "at least one step"),
        ({"epsilon": -1.0}, "negative"),
        ({"steps": 1, "commit": "boldness"}, "commit rule"),
        ({"steps": 1, "schedule": "square"}, "schedule"),
        ({"steps": 1, "pair_draw": lambda *_: None, "warper": warper(temperature=0.5)}, "the model's own joint"),
    ]:
        with pytest.raises(AnyorderError, match=message):
            parallel(table, **options)
