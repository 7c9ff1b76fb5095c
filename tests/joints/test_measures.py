"""The four metrics of section 3 against direct summation on five tokens."""

from __future__ import annotations

import math

import pytest
import torch

from anyorder.conditionals import Restricted, random_joint
from anyorder.joints import METHODS, PairTables, derive, pair_tables
from anyorder.joints.measures import divergences, score_pair

V = 5


@pytest.fixture(scope="module")
def tables() -> PairTables:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(2, V, V, generator=generator, dtype=torch.float64)
    masked = torch.log_softmax(torch.randn(2, V, generator=generator, dtype=torch.float64), -1)
    z = torch.logsumexp(logits, -1)
    log_q = logits - z[..., None]
    return PairTables(log_q[0], log_q[1], masked[0], masked[1], z[0], z[1])


@pytest.mark.parametrize("method", METHODS)
def test_against_direct_summation(tables, method):
    joint = derive(tables, method)
    p = joint.rows(slice(None)).exp()
    q_ab, q_ba = tables.log_a_given_b.exp(), tables.log_b_given_a.exp()
    a, b = 3, 1

    def kl_a(given_b: int) -> float:
        return sum(
            float(q_ab[given_b, x] * (q_ab[given_b, x] * p[:, given_b].sum() / p[x, given_b]).log()) for x in range(V)
        )

    def kl_b(given_a: int) -> float:
        return sum(
            float(q_ba[given_a, x] * (q_ba[given_a, x] * p[given_a].sum() / p[given_a, x]).log()) for x in range(V)
        )

    score = score_pair(tables, {method: joint}, (a, b))[method]
    assert score.p_nll == pytest.approx(-math.log(p[a, b]))
    assert score.a_kl == pytest.approx(sum(kl_a(w) + kl_b(w) for w in range(V)) / (2 * V))
    assert score.g_kl == pytest.approx((kl_a(b) + kl_b(a)) / 2)
    if method == "mlm":
        assert score.u_nll == pytest.approx(-math.log(q_ab[b, a]) - math.log(q_ba[a, b]))
    else:
        assert score.u_nll == pytest.approx(-math.log(p[a, b] / p[:, b].sum()) - math.log(p[a, b] / p[a].sum()))


def test_arnold_gokhale_is_the_most_faithful(tables):
    scores = score_pair(tables, {m: derive(tables, m) for m in METHODS}, (0, 0))
    assert min(scores, key=lambda m: scores[m].a_kl) == "ag"


@pytest.mark.parametrize("method", [name for name in METHODS if name != "mrf-logit"])
def test_a_token_that_cannot_be_has_the_conditional_the_joint_says(method):
    """Masked-diffusion models give their mask token no probability at all, at every position."""
    world = random_joint(torch.Generator().manual_seed(0), 4, 3)
    banned = Restricted(world, torch.tensor([True, True, True, False]))
    tables = pair_tables(banned, torch.tensor([4, 4, 1]), 0, 1)
    joint = derive(tables, method)
    for axis, found in zip((1, 0), divergences(tables, {method: joint})[method], strict=True):
        log_q = tables.log_a_given_b if axis else tables.log_b_given_a
        for token in range(4):
            q, p = log_q[token], joint.conditional(axis, token)
            direct = torch.where(q > -torch.inf, q.exp() * (q - p), 0.0).sum()
            assert float(found[token]) == pytest.approx(float(direct), abs=1e-9)


def test_zero_probabilities_count_as_zero():
    """0 log 0 = 0 where the model excludes a token; infinite where only the joint does."""
    log_q = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64).log()
    flat = torch.full((3,), 1 / 3, dtype=torch.float64).log()
    tables = PairTables(log_q, log_q, flat, flat)
    given_b, _ = divergences(tables, {"mlm": derive(tables, "mlm")})["mlm"]
    assert float(given_b[0]) == pytest.approx(math.log(3))
    assert torch.isfinite(given_b).all()
