"""lm.joint: a text with two blanks to a joint that speaks in tokens."""

from __future__ import annotations

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.joints import METHODS, adaptive_joint, arnold_gokhale, derive, pair_tables
from anyorder.joints.tables import PairTables
from anyorder.tasks.joint import TextJoint, read_pair, text_joints
from anyorder.tasks.options import JointOptions
from anyorder.text.vocabulary import vocabulary

TEXT = "the ___ man ___ on the mat ."


def same(found, expected):
    """The same pairs with the same probabilities."""
    ids = [x[:2] for x in found] == [x[:2] for x in expected]
    return ids and [x[2] for x in found] == pytest.approx([x[2] for x in expected], rel=1e-4)


def test_the_facade_is_the_construction_on_the_text(tiny_lm):
    tokens, a, b = read_pair(tiny_lm, TEXT)
    assert (a, b) == (2, 4)
    tables = pair_tables(tiny_lm.conditionals, tokens, a, b)
    found = text_joints(tiny_lm, TEXT, list(METHODS), JointOptions(special_tokens=True))
    for method in METHODS:
        expected = derive(tables, method)
        assert same(found[method].top(5), expected.top(5))
        torch.testing.assert_close(found[method].marginal(0), expected.marginal(0))
    joint = tiny_lm.joint(TEXT, special_tokens=True)
    assert joint.method == "ag"
    assert same(joint.top(3), found["ag"].top(3))
    assert joint.vocab_size == tiny_lm.conditionals.vocab_size


def test_special_tokens_are_left_out_unless_asked_for(tiny_lm):
    tokens, a, b = read_pair(tiny_lm, TEXT)
    text = ~vocabulary(tiny_lm.tokenizer, tiny_lm.conditionals.vocab_size).special
    assert int((~text).sum()) == 5
    full = pair_tables(tiny_lm.conditionals, tokens, a, b)
    given_b, given_a = (t[text][:, text].log_softmax(-1) for t in (full.log_a_given_b, full.log_b_given_a))
    log_a, log_b = (m[text].log_softmax(-1) for m in (full.log_a, full.log_b))
    found = text_joints(tiny_lm, TEXT, list(METHODS))
    for method, joint in found.items():
        every = torch.arange(len(text))
        cells = joint.joint.rows(slice(0, len(text)))
        torch.testing.assert_close(cells.double(), joint.joint.log_prob(every[:, None], every), rtol=1.3e-6, atol=1e-5)
        assert not cells[~text].isfinite().any()
        assert not cells[:, ~text].isfinite().any()
        torch.testing.assert_close(joint.marginal(1).exp(), cells.double().exp().sum(0), atol=1e-5, rtol=1e-4)
        if method != "mrf-logit":
            expected = derive(PairTables(given_b, given_a, log_a, log_b), method).rows(slice(0, len(log_a)))
            # Arnold-Gokhale stops at a change of 1e-6 in all: of cells rarer than that it promises no digits.
            atol = 1e-2 if method == "ag" else 1e-4
            torch.testing.assert_close(cells[text][:, text], expected, atol=atol, rtol=1e-4)
            torch.testing.assert_close(cells[text][:, text].exp(), expected.exp(), atol=1e-7, rtol=1e-4)
    # Raw logits know nothing of the tokens beside them: MRF-logit is its own restriction.
    whole = derive(full, "mrf-logit").rows(slice(0, len(text)))[text][:, text]
    mine = found["mrf-logit"].joint.rows(slice(0, len(text)))[text][:, text]
    torch.testing.assert_close(mine, whole - whole.flatten().logsumexp(0), atol=1e-4, rtol=1e-4)
    ids = text.nonzero().squeeze(1)
    assert found["hcb"].to_dict()["pivot"] == (int(ids[log_a.argmax()]), int(ids[log_b.argmax()]))
    few = tiny_lm.joint(TEXT, tail=1e-6)
    assert not few.marginal(0)[~text].exp().any()
    assert float(few.marginal(0).exp().sum()) == pytest.approx(1, abs=1e-3)


def test_tokens_by_name(tiny_lm):
    joint = tiny_lm.joint(TEXT, method="mrf")
    old, sat = tiny_lm.tokenizer.convert_tokens_to_ids(["old", "sat"])
    assert float(joint.log_prob("old", "sat")) == float(joint.log_prob(old, sat))
    torch.testing.assert_close(joint.conditional(0, "old"), joint.conditional(0, old))
    a, b, p = joint.pairs(1)[0]
    assert float(joint.log_prob(a, b).exp()) == pytest.approx(p, rel=1e-5)
    with pytest.raises(AnyorderError, match="not one token"):
        joint.log_prob("unheard-of", "sat")


def test_the_mask_token_and_a_blank_of_two_are_blanks_too(tiny_lm):
    expected = read_pair(tiny_lm, "the ___ ___ sat")
    for text in ("the [MASK] [MASK] sat", "the ___{2} sat", "the [MASK] ___ sat"):
        tokens, a, b = read_pair(tiny_lm, text)
        assert torch.equal(tokens, expected[0])
        assert (a, b) == expected[1:]


def test_ag_disagrees_least_with_the_model(tiny_lm):
    found = text_joints(tiny_lm, TEXT, list(METHODS))
    mean = {m: j.disagreement["a_kl"] for m, j in found.items()}
    assert min(mean, key=lambda m: mean[m]) == "ag"


def test_the_adaptive_mode(tiny_lm):
    exact = tiny_lm.joint(TEXT)
    found = tiny_lm.joint(TEXT, tail=1e-6)
    out = found.to_dict(3)
    assert out["outside_error"] <= 1e-6
    assert out["pairs"][0]["prob"] == pytest.approx(exact.top(1)[0][2], rel=0.05)
    assert same(tiny_lm.joint(TEXT, method="mlm", tail=0.1).top(1), tiny_lm.joint(TEXT, "mlm").top(1))
    with pytest.raises(AnyorderError, match="adaptive support is for ag and mlm"):
        tiny_lm.joint(TEXT, method="hcb", tail=0.1)


def test_headings_say_how_far_to_trust_the_numbers(tiny_lm, monkeypatch):
    tokens, a, b = read_pair(tiny_lm, TEXT)
    joint = adaptive_joint(tiny_lm.conditionals, tokens, a, b, tail=0.05, start=8)
    few = TextJoint(joint, "ag", vocabulary(tiny_lm.tokenizer, tiny_lm.conditionals.vocab_size))
    outside, error = few.to_dict()["outside"], few.to_dict()["outside_error"]
    assert 0 < error <= 0.05
    assert f"{outside:.2g} ± {error:.1g} of the mass on pairs" in few.heading
    hcb = tiny_lm.joint(TEXT, "hcb")
    assert hcb.to_dict()["orientation"] == "a given b"
    assert "the first blank given the second is the model's own" in hcb.heading
    done = tiny_lm.joint(TEXT)
    assert done.to_dict()["converged"]
    assert "converged" not in done.heading
    monkeypatch.setitem(METHODS, "ag", lambda t: arnold_gokhale(t.log_a_given_b, t.log_b_given_a, max_iterations=2))
    stopped = tiny_lm.joint(TEXT)
    assert not stopped.to_dict()["converged"]
    assert stopped.to_dict()["change"] > 0
    assert "not converged: after 2 iterations" in stopped.heading


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the man sat", "no blank"),
        ("the ___ sat", "one blank: add one, or use anyorder fill"),
        ("the ___ ___ ___ sat", "the text has 3: use anyorder fill"),
        ("the ___{1-2} ___", "fixed length"),
        ("___ ___", "no word besides its blanks"),
        ("", "no blank"),
        ("the man " * 40 + "___ ___", "the model holds 64"),
    ],
)
def test_texts_that_are_refused(tiny_lm, text, message):
    with pytest.raises(AnyorderError, match=message):
        tiny_lm.joint(text)


def test_an_unknown_method(tiny_lm):
    with pytest.raises(AnyorderError, match="unknown method 'gibbs': choose one of mlm"):
        tiny_lm.joint(TEXT, method="gibbs")
