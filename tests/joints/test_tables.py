"""The O(V) passes: against exact conditionals, and against a plain forward of a tiny model."""

from __future__ import annotations

import pytest
import torch

from anyorder import memory
from anyorder.conditionals import random_joint
from anyorder.errors import AnyorderError
from anyorder.joints import arnold_gokhale, pair_tables
from anyorder.joints.tables import check_memory


def test_of_an_exact_table():
    world = random_joint(torch.Generator().manual_seed(0), 4, 3)
    given = 2  # the text's other token
    found = pair_tables(world, torch.tensor([0, given, 0]), 0, 2)
    p = world.log_joint[:, given].exp()
    p = p / p.sum()
    torch.testing.assert_close(found.log_a_given_b.exp(), (p / p.sum(0)).T)
    torch.testing.assert_close(found.log_b_given_a.exp(), p / p.sum(1, keepdim=True))
    torch.testing.assert_close(found.log_a.exp(), p.sum(1))
    torch.testing.assert_close(found.log_b.exp(), p.sum(0))
    assert found.log_z_a_given_b is None
    q = arnold_gokhale(found.log_a_given_b, found.log_b_given_a)
    torch.testing.assert_close(q.rows(slice(None)).exp(), p, atol=1e-6, rtol=0)


def test_of_a_model_against_the_plain_forward(tiny_lm):
    tokens = tiny_lm.tokenizer("the old man sat on the mat .", return_tensors="pt")["input_ids"][0]
    a, b = 5, 2
    rows = []
    found = pair_tables(tiny_lm.conditionals, tokens, a, b, report=rows.append)
    v = tiny_lm.conditionals.vocab_size
    assert sum(rows) == 2 * v
    assert found.log_z_a_given_b is not None
    for word in (0, 7, tiny_lm.tokenizer.mask_token_id, v - 1):
        row = tokens.clone()
        row[a], row[b] = tiny_lm.tokenizer.mask_token_id, word
        with torch.no_grad():  # padding (0) as a value is a token like any other, as in the authors' code
            logits = tiny_lm.model(input_ids=row[None]).logits[0, a]
        torch.testing.assert_close(found.log_a_given_b[word], torch.log_softmax(logits, -1), atol=1e-5, rtol=1e-5)
        back = found.log_a_given_b[word] + found.log_z_a_given_b[word]
        torch.testing.assert_close(back, logits, atol=1e-5, rtol=1e-5)
    # The row of the mask token is what the model says with both masked.
    torch.testing.assert_close(found.log_b_given_a[tiny_lm.tokenizer.mask_token_id], found.log_b, atol=1e-5, rtol=1e-5)


def test_too_large_for_the_memory_at_hand(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10**9)
    check_memory(1000)
    with pytest.raises(AnyorderError, match=r"10\.1 GB and 1 GB are free: use the adaptive support"):
        check_memory(28_996)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0, 3), (-1, 1)])
def test_positions_that_are_no_pair(a, b):
    world = random_joint(torch.Generator().manual_seed(0), 2, 3)
    with pytest.raises(AnyorderError, match="two different positions"):
        pair_tables(world, torch.tensor([0, 0, 0]), a, b)
