"""Adaptive support: exact where it covers everything, honest about the rest where it does not."""

from __future__ import annotations

import math

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.joints import adaptive_joint, arnold_gokhale, pair_tables
from anyorder.joints.support import _PROBES, _Z, _Direction, _fit, _Probes
from anyorder.joints.tables import masked_marginals
from joints.known_tables import Pair

ALL = slice(None)
TEXT = torch.tensor([0, 0])


def world(seed: int, vocab_size: int = 300) -> Pair:
    """Zipfian marginals with dependence: most of the mass on few tokens, a long tail, and neighbours that attract."""
    generator = torch.Generator().manual_seed(seed)
    zipf = -1.3 * torch.arange(1, vocab_size + 1, dtype=torch.float64).log()
    kinds = torch.randint(5, (2, vocab_size), generator=generator)
    log_p = zipf[:, None] + zipf + 2.0 * (kinds[0][:, None] == kinds[1])
    noise = torch.randn(vocab_size, vocab_size, generator=generator, dtype=torch.float64)
    return Pair((log_p + 0.5 * noise).exp())


def test_whole_vocabulary_is_exact():
    table = world(0, 40)
    q = adaptive_joint(table, TEXT, 0, 1, start=40)
    torch.testing.assert_close(q.rows(ALL).exp(), table.p, atol=1e-9, rtol=0)
    assert (q.rows_asked, q.outside_error, q.outside) == (80, 0.0, 0.0)


def test_known_rows_of_a_joint_give_its_regions_exactly():
    """With a part of the rows of a compatible model, I, II and III are the joint given that it is not in IV."""
    table = world(1, 60)
    p = table.p
    known = (_Direction(table, TEXT, 0, 1, lambda n: None), _Direction(table, TEXT, 1, 0, lambda n: None))
    known[0].ask(torch.tensor([0, 1, 2, 7, 9]))
    known[1].ask(torch.tensor([0, 3, 4, 30]))
    joint = _fit(known, masked_marginals(table, TEXT, 0, 1))
    columns = joint.columns
    seen = torch.zeros(60, 60, dtype=torch.bool)
    seen[known[0].ids], seen[:, known[1].ids] = True, True
    expected = torch.where(seen, p, 0.0) / p[seen].sum()
    torch.testing.assert_close(joint.rows(ALL).exp(), expected, atol=1e-8, rtol=0)
    outside = [~torch.isin(torch.arange(60), k.ids) for k in known]
    torch.testing.assert_close(columns[1], torch.where(outside[1], expected.sum(0), 0.0), atol=1e-8, rtol=0)
    torch.testing.assert_close(columns[0], torch.where(outside[0], expected.sum(1), 0.0), atol=1e-8, rtol=0)


def test_it_is_a_distribution_and_the_contract_holds():
    q = adaptive_joint(world(2), TEXT, 0, 1, tail=0.01, start=20)
    p = q.rows(ALL).exp()
    assert 0 < q.outside < 0.5
    assert q.rows_asked < 600
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-9)
    torch.testing.assert_close(q.marginal(0).exp(), p.sum(1))
    torch.testing.assert_close(q.marginal(1).exp(), p.sum(0))
    torch.testing.assert_close(q.conditional(1, 250).exp(), p[:, 250] / p[:, 250].sum())
    best = q.top(20)
    assert [x[2] for x in best] == pytest.approx(p.flatten().topk(20).values.tolist())
    assert all(value == pytest.approx(float(p[a, b])) for a, b, value in best)


def test_the_best_pairs_may_be_two_tokens_outside_the_support():
    """The likeliest tokens of either position go with many others, those after them with each other alone."""
    p = torch.zeros(50, 50, dtype=torch.float64)
    p[:4, 6:], p[6:, :4], p[4:6, 4:6], p[6:, 6:] = 0.36 / 176, 0.36 / 176, 0.16 / 4, 0.12 / 44**2
    q = adaptive_joint(Pair(p), TEXT, 0, 1, tail=0.3, start=4)
    assert [ids.tolist() for ids in q.support] == [[0, 1, 2, 3]] * 2
    best = q.top(3)
    assert {(a, b) for a, b, _ in best} < {(4, 4), (4, 5), (5, 4), (5, 5)}
    assert [x[2] for x in best] == pytest.approx(q.rows(ALL).exp().flatten().topk(3).values.tolist())


def test_the_certificate_is_honest():
    """The error of κ lies within the stated 95 % interval about that often, over many worlds."""
    within, runs = 0, 50
    for seed in range(runs):
        table = world(seed)
        q = adaptive_joint(table, TEXT, 0, 1, tail=0.01, start=16, seed=seed)
        p = table.p
        for side, ids in enumerate(q.support):
            p = p.index_fill(side, ids, 0.0)
        truth = float(p.sum())
        assert q.outside_error <= 0.01
        within += abs(truth - q.outside) <= q.outside_error
    assert within >= 0.94 * runs


def test_the_mass_outside_may_exceed_the_tail_many_times():
    """``tail`` limits the error of κ; κ itself is whatever the rows left out hold."""
    table = world(2)
    q = adaptive_joint(table, TEXT, 0, 1, tail=0.01, start=8)
    p = table.p
    for side, ids in enumerate(q.support):
        p = p.index_fill(side, ids, 0.0)
    assert q.outside_error <= 0.01 < float(p.sum()) / 2
    assert q.outside == pytest.approx(float(p.sum()), abs=q.outside_error)


def test_a_smaller_tail_asks_for_more_rows_and_comes_closer():
    table = world(5)
    p = table.p
    loose, tight = (adaptive_joint(table, TEXT, 0, 1, tail=t, start=8) for t in (0.05, 0.003))
    assert loose.rows_asked < tight.rows_asked < 600
    assert tight.outside_error <= 0.003
    distance = [float((q.rows(ALL).exp() - p).abs().sum()) / 2 for q in (loose, tight)]
    assert distance[1] < distance[0]
    # A pair with both tokens in the support is right to within the tail.
    assert float(tight.log_prob(0, 0)) == pytest.approx(float(table.p[0, 0].log()), abs=0.006)


@pytest.mark.parametrize("tail", [0.05, 0.005, 0.0005])
def test_the_plan_takes_the_fewest_rows(tail):
    table = world(7, 120)
    masked = masked_marginals(table, TEXT, 0, 1)[1]
    rows = _Direction(table, TEXT, 1, 0, lambda n: None)
    rows.ask(masked.topk(10).indices)
    sample = _Probes(rows, torch.arange(10), masked, torch.Generator().manual_seed(0))
    sample.draw(_PROBES)
    left = sorted((float(p) for i, p in enumerate(masked.exp()) if i not in rows.ids.tolist()), reverse=True)
    spread = sample.error / (_Z * sum(left)) * _PROBES**0.5
    costs = []
    for more in range(len(left) + 1):
        probes = max(_PROBES, math.ceil(1.1 * (_Z * spread * sum(left[more:]) / tail) ** 2)) if more < len(left) else 0
        costs.append(more + probes - (_PROBES if more == 0 else 0))
    plan = sample.plan(tail)
    assert plan.rows == min(costs) == costs[plan.more]
    if plan.more < len(left):
        assert plan.probes + plan.more - (_PROBES if plan.more == 0 else 0) == plan.rows


def test_included_tokens_are_in_the_support():
    q = adaptive_joint(world(6), TEXT, 0, 1, tail=0.05, start=8, include=(299, 288))
    assert 299 in q.support[0].tolist()
    assert 288 in q.support[1].tolist()


def test_close_to_the_exact_mode_on_a_model(tiny_lm):
    """Conditionals of a random network belong to no joint; the two modes still agree where the mass is."""
    tokens = tiny_lm.tokenizer("the old man sat on the mat .", return_tensors="pt")["input_ids"][0]
    tables = pair_tables(tiny_lm.conditionals, tokens, 3, 5)
    exact = arnold_gokhale(tables.log_a_given_b, tables.log_b_given_a)
    v = tables.vocab_size
    whole = adaptive_joint(tiny_lm.conditionals, tokens, 3, 5, start=v)
    torch.testing.assert_close(whole.rows(ALL).exp(), exact.rows(ALL).double().exp(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("tail", [0.0, 1.5, -1.0])
def test_a_tail_that_is_no_probability(tail):
    with pytest.raises(AnyorderError, match="between 0 and 1"):
        adaptive_joint(world(0, 10), TEXT, 0, 1, tail=tail)
