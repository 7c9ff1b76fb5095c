"""Restricted conditionals against the exact table, and the one support all commands draw text from."""

from __future__ import annotations

import math

import pytest
import torch

from anyorder.conditionals import Restricted, Table, random_joint, text_only
from anyorder.errors import AnyorderError
from anyorder.studies.options.generation import DiagnoseOptions

BY_POSITION = torch.tensor([[True, True, True], [True, False, True], [False, False, True]])


@pytest.mark.parametrize("allowed", [BY_POSITION, torch.tensor([True, False, True])], ids=["by position", "everywhere"])
def test_only_allowed_tokens_keep_mass_and_it_is_one(allowed):
    table = random_joint(torch.Generator().manual_seed(0), 3, 3)
    tokens = torch.full((2, 3), table.mask_id)
    tokens[1, 0] = 2
    positions = torch.tensor([[2, 1, 0], [1, -1, 2]])
    p, q = table(tokens, positions).exp(), Restricted(table, allowed)(tokens, positions).exp()
    for row in range(2):
        for slot in range(3):
            if positions[row, slot] < 0:
                torch.testing.assert_close(q[row, slot], torch.full((3,), 1 / 3, dtype=q.dtype))
                continue
            rule = allowed if allowed.ndim == 1 else allowed[positions[row, slot]]
            by_hand = torch.where(rule, p[row, slot], 0.0)
            torch.testing.assert_close(q[row, slot], by_hand / by_hand.sum())


def test_where_all_that_is_allowed_is_impossible_it_is_alike_and_no_nan():
    table = Table(torch.tensor([1.0, 0.0, 0.0]).log().double())  # always token 0
    asked = torch.tensor([[table.mask_id]]), torch.tensor([[0]])
    q = Restricted(table, torch.tensor([False, True, True]))(*asked).exp()
    torch.testing.assert_close(q, torch.tensor([[[0.0, 0.5, 0.5]]], dtype=q.dtype))

    class Broken:
        vocab_size, mask_id, pad_id = 3, 3, None

        def __call__(self, tokens, positions):
            return torch.full((1, 1, 3), torch.nan)

    assert Restricted(Broken(), torch.tensor([False, True, True]))(*asked).isnan().all(), "a model's NaN is not hidden"


def test_the_inner_answer_is_left_alone():
    log_q = torch.full((1, 1, 3), -math.log(3.0))

    class Kept:
        vocab_size, mask_id, pad_id = 3, 3, None

        def __call__(self, tokens, positions):
            return log_q

    answer = Restricted(Kept(), torch.tensor([False, True, True]))(torch.tensor([[3]]), torch.tensor([[0]]))
    assert math.isclose(float(answer[0, 0, 1].exp()), 0.5, rel_tol=1e-6)
    assert torch.isfinite(log_q).all()


@pytest.mark.parametrize("allowed", [torch.tensor([[True, True], [False, False]]), torch.tensor([False, False])])
def test_a_position_without_a_token_is_refused(allowed):
    with pytest.raises(AnyorderError, match="at least one"):
        Restricted(Table(torch.zeros(2, 2)), allowed)


def test_generate_and_diagnose_draw_from_the_same_tokens(tiny_lm, monkeypatch):
    from anyorder.studies import diagnose
    from anyorder.tasks.generate import plan

    q = text_only(tiny_lm.conditionals, tiny_lm.tokenizer)
    tokens = torch.full((1, 6), q.mask_id)
    possible = ~torch.isneginf(q(tokens, torch.tensor([[3]]))[0, 0])
    assert not possible[tiny_lm.tokenizer.all_special_ids].any()
    assert possible.sum() == len(tiny_lm.tokenizer) - len(tiny_lm.tokenizer.all_special_ids)

    assert torch.equal(plan(tiny_lm, length=4).canvas.allowed[3], possible)

    seen = []

    def caught(lm, conditionals, *rest):
        seen.append(conditionals(tokens, torch.tensor([[3]]))[0, 0])
        raise StopIteration

    monkeypatch.setattr(diagnose, "text_pairs", caught)
    with pytest.raises(RuntimeError):  # what StopIteration becomes inside a generator
        list(diagnose.diagnose(tiny_lm, ["the cat sat on the mat and the dog ran over the road"], DiagnoseOptions()))
    assert torch.equal(~torch.isneginf(seen[0]), possible)
