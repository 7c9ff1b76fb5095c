"""Product, MRF, HCB and Arnold–Gokhale against joints that are known exactly."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.errors import AnyorderError
from anyorder.joints import arnold_gokhale, hcb, mrf, product
from joints.known_tables import conditionals_of, incompatible

ALL = slice(None)


def joint_of(weights: list[float], v: int) -> torch.Tensor:
    p = torch.tensor(weights, dtype=torch.float64).view(v, v)
    return p / p.sum()


@st.composite
def joints(draw):
    """A strictly positive joint over V×V, from flat to fairly peaked."""
    v = draw(st.integers(2, 6))
    return joint_of(draw(st.lists(st.floats(0.01, 10.0), min_size=v * v, max_size=v * v)), v)


@settings(max_examples=60, deadline=None)
@given(joints(), st.data())
def test_hcb_with_any_pivot_recovers_the_joint(p, data):
    v = len(p)
    pivot = (data.draw(st.integers(0, v - 1)), data.draw(st.integers(0, v - 1)))
    torch.testing.assert_close(hcb(*conditionals_of(p), pivot=pivot).rows(ALL).exp(), p, atol=1e-6, rtol=0)
    torch.testing.assert_close(hcb(*conditionals_of(p)).rows(ALL).exp(), p, atol=1e-6, rtol=0)


@settings(max_examples=60, deadline=None)
@given(joints())
def test_arnold_gokhale_recovers_the_joint(p):
    q = arnold_gokhale(*conditionals_of(p))
    torch.testing.assert_close(q.rows(ALL).exp(), p, atol=1e-6, rtol=0)
    assert q.change <= 1e-12


@settings(max_examples=30, deadline=None)
@given(joints())
def test_product_of_compatible_tables_is_the_product_of_the_marginals(p):
    q = product(*conditionals_of(p))
    torch.testing.assert_close(q.rows(ALL).exp(), p.sum(1, keepdim=True) * p.sum(0), atol=1e-6, rtol=0)


def test_product_and_mrf_do_not_recover_the_joint_in_general():
    p = joint_of([97, 1, 1, 1], 2)
    for method in (product, mrf):
        assert (method(*conditionals_of(p)).rows(ALL).exp() - p).abs().max() > 0.005


def test_appendix_b():
    """KL(p(·|b) ‖ q_MRF(·|b)) ≈ 1.27 for the joint (97, 1, 1, 1) / 100."""
    a_given_b, b_given_a = conditionals_of(joint_of([97, 1, 1, 1], 2))
    q = mrf(a_given_b, b_given_a).conditional(1, 1)
    kl = float((a_given_b[1].exp() * (a_given_b[1] - q)).sum())
    assert kl == pytest.approx(math.log(1 / 196 + 1 / 4) - math.log(1 / 196) / 2)
    assert round(kl, 2) == 1.27


def test_mrf_logit_is_mrf_of_logits():
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 7, 7, generator=generator, dtype=torch.float64)
    z = torch.logsumexp(logits, -1)
    log_q = logits - z[..., None]
    short = mrf(log_q[0], log_q[1], log_z_a_given_b=z[0], log_z_b_given_a=z[1])
    direct = torch.log_softmax((logits[0].T + logits[1]).flatten(), 0).view(7, 7)
    torch.testing.assert_close(short.rows(ALL), direct)
    torch.testing.assert_close(mrf(logits[0], logits[1]).rows(ALL), direct)


def test_mrf_and_hcb_follow_their_formulas_on_incompatible_tables():
    ab, ba = incompatible(0)
    direct = torch.log_softmax((ab.T + ba).flatten(), 0).view(5, 5)
    torch.testing.assert_close(mrf(ab, ba).rows(ALL), direct)
    for pivot in ((0, 0), (3, 1)):
        score = torch.empty(5, 5, dtype=torch.float64)
        for a in range(5):
            for b in range(5):
                # eq 3: t = 1 is a, with b to its right; t = 2 is b, with the pivot's a to its left
                score[a, b] = ab[b, a] - ab[b, pivot[0]] + ba[pivot[0], b] - ba[pivot[0], pivot[1]]
        direct = torch.log_softmax(score.flatten(), 0).view(5, 5)
        torch.testing.assert_close(hcb(ab, ba, pivot=pivot).rows(ALL), direct)


def test_product_of_two_vectors():
    log_a, log_b = torch.log_softmax(torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]).double(), -1)
    q = product(log_a, log_b)
    assert float(q.log_prob(2, 0)) == pytest.approx(float(log_a[2] + log_b[0]))


@pytest.mark.parametrize("method", [product, mrf, hcb, arnold_gokhale])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_joint_contract(method, dtype):
    """Cells, rows, marginals, conditionals and the best pairs all describe one distribution."""
    ab, ba = (x.to(dtype) for x in incompatible(1, vocab_size=9))
    q = method(ab, ba)
    close = {"atol": 1e-5, "rtol": 1e-5}
    p = q.rows(ALL).double().exp()
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-5)
    grid = torch.arange(9)
    torch.testing.assert_close(q.log_prob(grid[:, None], grid).double().exp(), p, **close)
    torch.testing.assert_close(q.rows(torch.tensor([4, 2])).double().exp(), p[[4, 2]], **close)
    torch.testing.assert_close(q.marginal(0).exp(), p.sum(1), **close)
    torch.testing.assert_close(q.marginal(1).exp(), p.sum(0), **close)
    torch.testing.assert_close(q.conditional(0, 5).exp(), p[5] / p[5].sum(), **close)
    torch.testing.assert_close(q.conditional(1, 5).exp(), p[:, 5] / p[:, 5].sum(), **close)
    best = q.top(7)
    assert [prob for _, _, prob in best] == pytest.approx(p.flatten().topk(7).values.tolist(), abs=1e-5)
    assert all(prob == pytest.approx(float(p[a, b]), abs=1e-5) for a, b, prob in best)
    assert len(q.top(1000)) == 81
    with pytest.raises(ValueError, match="axes 0"):
        q.marginal(2)


def test_samples_follow_the_joint():
    q = arnold_gokhale(*incompatible(2, vocab_size=3))
    draws = q.sample(torch.Generator().manual_seed(0), 20_000)
    counts = torch.bincount(draws[:, 0] * 3 + draws[:, 1], minlength=9).double() / 20_000
    assert float((counts - q.rows(ALL).exp().flatten()).abs().sum()) / 2 < 0.02


def test_tiles_do_not_show(monkeypatch):
    """A vocabulary cut into several tiles gives what one tile gives."""
    from anyorder.joints import pair

    ab, ba = incompatible(4, vocab_size=23)
    whole = [m(ab, ba).rows(ALL) for m in (mrf, hcb, arnold_gokhale)]
    monkeypatch.setattr(pair, "_TILE", 50)
    for method, expected in zip((mrf, hcb, arnold_gokhale), whole, strict=True):
        q = method(ab, ba)
        torch.testing.assert_close(q.rows(ALL), expected)
        assert [x[:2] for x in q.top(3)] == [(i // 23, i % 23) for i in expected.flatten().topk(3).indices.tolist()]


def test_zeros_in_the_tables():
    p = joint_of([4, 0, 1, 2, 3, 0, 1, 1, 5], 3)
    torch.testing.assert_close(arnold_gokhale(*conditionals_of(p)).rows(ALL).exp(), p, atol=1e-6, rtol=0)
    torch.testing.assert_close(hcb(*conditionals_of(p), pivot=(2, 0)).rows(ALL).exp(), p, atol=1e-6, rtol=0)
    with pytest.raises(AnyorderError, match="pivot"):
        hcb(*conditionals_of(p), pivot=(0, 0))


def test_tables_of_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="two tables"):
        mrf(torch.zeros(3, 3), torch.zeros(3, 4))


def test_hcb_keeps_the_conditional_its_orientation_names():
    """For incompatible tables a given b is the model's, b given a is not, and turning the pair round gives another."""
    ab, ba = incompatible(1)
    q = hcb(ab, ba)
    assert q.orientation == "a given b"
    p = q.rows(ALL).exp()
    torch.testing.assert_close((p / p.sum(0)).T, ab.exp())
    assert ((p / p.sum(1, keepdim=True)) - ba.exp()).abs().max() > 0.05
    turned = hcb(ba, ab, pivot=(q.pivot[1], q.pivot[0])).rows(ALL).exp().T
    assert (turned - p).abs().sum() / 2 > 0.05
