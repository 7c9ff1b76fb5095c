"""Joints of three and four positions against exact tables, and of two against the pairwise constructions."""

from __future__ import annotations

import math

import pytest
import torch

from anyorder.conditionals import Table, random_joint
from anyorder.errors import AnyorderError
from anyorder.joints import METHODS, arnold_gokhale, derive, hcb, many, many_tables, mrf, pair_tables
from anyorder.joints.many import ManyTables, many_hcb, many_mrf, many_mrf_logit, many_product
from anyorder.joints.measures import score_many, score_pair

ALL = slice(None)


def world(vocab_size: int, length: int, seed: int = 0):
    return random_joint(torch.Generator().manual_seed(seed), vocab_size, length)


def incompatible_tables(vocab_size: int, k: int, seed: int = 0) -> ManyTables:
    """Conditionals drawn independently for each position: of no joint."""
    generator = torch.Generator().manual_seed(seed)
    shape = [vocab_size] * k
    draw = [2 * torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(k)]
    log_q = tuple(torch.log_softmax(x, t) for t, x in enumerate(draw))
    masked = tuple(
        torch.log_softmax(torch.randn(vocab_size, generator=generator, dtype=torch.float64), 0) for _ in range(k)
    )
    kept = tuple(torch.ones([1 if s == t else vocab_size for s in range(k)], dtype=torch.float64) for t in range(k))
    return ManyTables((torch.arange(vocab_size),) * k, log_q, masked, kept)


@pytest.mark.parametrize(("vocab_size", "k"), [(3, 2), (3, 3), (4, 3), (2, 4)])
def test_compatible_conditionals_give_their_joint(vocab_size, k):
    table = world(vocab_size, k + 1)
    tokens = torch.tensor([0] * k + [1])
    asked = []
    tables = many_tables(table, tokens, list(range(k)), report=asked.append)
    p = table.log_joint[..., 1].exp()
    p = p / p.sum()
    assert sum(asked) == k * vocab_size ** (k - 1)
    for joint in (many(tables), many_hcb(tables), many_hcb(tables, [vocab_size - 1] * k)):
        torch.testing.assert_close(joint.log_p.exp(), p, atol=1e-6, rtol=0)
        assert max(joint.outside) < 1e-9
    assert (many_mrf(tables).log_p.exp() - p).abs().max() > 1e-3
    outer = many_product(tables).log_p.exp()
    marginals = [p.sum([s for s in range(k) if s != t]) for t in range(k)]
    torch.testing.assert_close(outer.sum(list(range(1, k))), marginals[0])
    assert (outer - p).abs().max() > 1e-3


def test_zeros_in_the_tables():
    p = torch.tensor([[[2.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    tables = many_tables(Table(p.log()), torch.zeros(3, dtype=torch.long), [0, 1, 2])
    torch.testing.assert_close(many_hcb(tables, [0, 0, 0]).log_p.exp(), p / p.sum(), atol=1e-9, rtol=0)
    with pytest.raises(AnyorderError, match="pivot"):
        many_hcb(tables, [1, 1, 1])


def test_metrics_are_numbers_where_a_joint_says_nothing():
    """The MRF of tables with zeros gives some pairs no mass: what follows them is uniform, as for two positions."""
    p = torch.zeros(2, 2, 2, dtype=torch.float64)
    p[0, 0, 0], p[1, 1, 1], p[0, 1, 1] = 0.5, 0.3, 0.2
    tables = many_tables(Table(p.log()), torch.tensor([2, 2, 2]), [0, 1, 2])
    joint = many_mrf(tables)
    assert joint.conditional(0, (0, 0, 1)).exp().tolist() == pytest.approx([0.5, 0.5])
    score = score_many(tables, {"mrf": joint}, (0, 0, 0))["mrf"]
    assert all(math.isfinite(x) for x in (score.u_nll, score.p_nll, score.a_kl, score.g_kl))


def test_two_positions_are_the_pairwise_constructions():
    tables = incompatible_tables(6, 2)
    ab, ba = tables.log_q[0].T, tables.log_q[1]
    torch.testing.assert_close(many(tables).log_p, arnold_gokhale(ab, ba).rows(ALL), atol=1e-8, rtol=0)
    torch.testing.assert_close(many_mrf(tables).log_p, mrf(ab, ba).rows(ALL))
    mode = tuple(int(m.argmax()) for m in tables.log_masked)
    torch.testing.assert_close(many_hcb(tables).log_p, hcb(ab, ba, pivot=mode).rows(ALL))


def test_metrics_of_two_positions_are_the_pairwise_metrics():
    table = world(5, 3)
    tokens = torch.tensor([0, 0, 2])
    pair, both = pair_tables(table, tokens, 0, 1), many_tables(table, tokens, [0, 1])
    methods = {"mlm": many_product, "mrf": many_mrf, "hcb": many_hcb, "ag": many}
    assert set(methods) < set(METHODS)
    expected = score_pair(pair, {m: derive(pair, m) for m in methods}, (3, 1))
    found = score_many(both, {m: f(both) for m, f in methods.items()}, (3, 1))
    for method in methods:
        for name, value in expected[method].to_dict().items():
            assert getattr(found[method], name) == pytest.approx(value, abs=1e-8)


def test_mrf_logit_is_the_softmax_of_the_summed_logits(tiny_lm):
    tokens = tiny_lm.tokenizer("the old man sat on the mat .", return_tensors="pt")["input_ids"][0]
    positions = [5, 2, 3]
    joint = many_mrf_logit(many_tables(tiny_lm.conditionals, tokens, positions, support=4))

    def summed_logits(ids):
        total = 0.0
        for ask, token in zip(positions, ids, strict=True):
            row = tokens.clone()
            row[positions] = torch.tensor(ids)
            row[ask] = tiny_lm.tokenizer.mask_token_id
            with torch.no_grad():
                total += float(tiny_lm.model(input_ids=row[None]).logits[0, ask, token])
        return total

    cells = torch.cartesian_prod(*joint.support).tolist()
    expected = torch.log_softmax(torch.tensor([summed_logits(ids) for ids in cells], dtype=torch.float64), 0)
    torch.testing.assert_close(joint.log_p.flatten(), expected, atol=1e-4, rtol=0)
    with pytest.raises(AnyorderError, match="use mrf instead"):
        many_mrf_logit(incompatible_tables(3, 3))


@pytest.mark.parametrize("k", [3, 4])
def test_the_minimum_is_stationary(k):
    tables = incompatible_tables(3, k)

    def objective(log_p):
        return sum(float((q.exp() * (q - torch.log_softmax(log_p, t))).sum()) for t, q in enumerate(tables.log_q))

    log_p = many(tables).log_p
    base = objective(log_p)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        direction = torch.randn(log_p.shape, generator=generator, dtype=torch.float64)
        up, down = (objective(log_p + h * direction) for h in (1e-4, -1e-4))
        assert abs(up - down) / 2e-4 < 1e-6
        assert min(up, down) >= base


def test_a_truncated_support_says_what_it_leaves_out():
    table = world(8, 3, seed=2)
    tables = many_tables(table, torch.zeros(3, dtype=torch.long), [0, 1, 2], support=5, include=[7, 0, 3])
    joint = many(tables)
    assert all(len(s) == 5 for s in joint.support)
    assert joint.covers([7, 0, 3])
    left_out = next(t for t in range(8) if t not in joint.support[0].tolist())
    assert not joint.covers([left_out, 0, 3])
    # Compatible conditionals: what is left is the joint given the support, and its leak can be counted directly.
    p = table.log_joint.exp()
    inside = p[joint.support[0]][:, joint.support[1]][:, :, joint.support[2]]
    torch.testing.assert_close(joint.log_p.exp(), inside / inside.sum(), atol=1e-6, rtol=0)
    whole = p[joint.support[0]][:, joint.support[1]].sum(2)
    leak = (inside.sum(2) / inside.sum() * (1 - inside.sum(2) / whole)).sum()
    assert joint.outside[2] == pytest.approx(float(leak), abs=1e-6)


def test_reading_the_joint():
    table = world(4, 3, seed=5)
    joint = many(many_tables(table, torch.zeros(3, dtype=torch.long), [0, 1, 2]))
    p = table.log_joint.exp()
    assert float(joint.log_prob(1, 2, 3)) == pytest.approx(float(p[1, 2, 3].log()), abs=1e-6)
    torch.testing.assert_close(joint.marginal(1).exp(), p.sum((0, 2)), atol=1e-6, rtol=0)
    torch.testing.assert_close(joint.conditional(2, [1, 2, 0]).exp(), p[1, 2] / p[1, 2].sum(), atol=1e-6, rtol=0)
    (ids, value), *_ = joint.top(3)
    assert value == pytest.approx(float(p.max()), abs=1e-6)
    assert float(p[ids]) == pytest.approx(float(p.max()), abs=1e-6)
    draws = joint.sample(torch.Generator().manual_seed(0), 20_000)
    counts = torch.bincount((draws * torch.tensor([16, 4, 1])).sum(1), minlength=64) / 20_000
    assert float((counts - p.flatten()).abs().sum()) / 2 < 0.04


def test_too_much_is_refused_with_what_would_fit():
    with pytest.raises(AnyorderError, match="restrict the support to at most 258"):
        many_tables(_Huge(), torch.zeros(5, dtype=torch.long), [0, 1, 2])
    with pytest.raises(AnyorderError, match="two to four different positions"):
        many_tables(world(3, 3), torch.zeros(3, dtype=torch.long), [0, 0, 1])


class _Huge:
    vocab_size, mask_id, pad_id = 8192, 4, None

    def __call__(self, tokens, positions):
        raise AssertionError("refused before the first pass")


def test_a_fit_that_stops_at_its_limit_says_so():
    tables = incompatible_tables(4, 3)
    stopped, whole = many(tables, max_iterations=2), many(tables)
    assert (stopped.iterations, stopped.converged, whole.converged) == (2, False, True)
    assert whole.change <= 1e-12 < stopped.change
