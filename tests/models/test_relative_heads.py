"""u-PMLM-R's heads: shift-invariance, the Auto classes, training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

import anyorder  # noqa: F401  (makes the Auto classes know u-PMLM-R)
from anyorder.models.relative_heads import (
    RelativeBertForQuestionAnswering,
    RelativeBertForSequenceClassification,
    to_the_front,
)
from tiny import tiny_config

HEADS = {
    AutoModelForSequenceClassification: RelativeBertForSequenceClassification,
    AutoModelForQuestionAnswering: RelativeBertForQuestionAnswering,
}


def head(auto: Any) -> Any:
    """A random model in float64, so that equalities can be tight."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        labels = 2 if auto is AutoModelForQuestionAnswering else 3
        return auto.from_config(tiny_config("anyorder-relative-bert", num_labels=labels)).eval().double()


def words(length: int = 9) -> torch.Tensor:
    return torch.randint(5, 40, (2, length), generator=torch.Generator().manual_seed(1))


def padded(tokens: torch.Tensor, left: int, right: int) -> dict[str, torch.Tensor]:
    tokens = torch.nn.functional.pad(tokens, (left, right))
    types = (torch.arange(tokens.shape[1]) >= left + 4).long().expand(tokens.shape)
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "token_type_ids": types}


@pytest.mark.parametrize("auto", HEADS)
def test_the_auto_classes_know_them(auto: Any, tmp_path: Path) -> None:
    made = head(auto)
    assert type(made) is HEADS[auto]
    made.save_pretrained(tmp_path)
    again = auto.from_pretrained(tmp_path).double()
    with torch.no_grad():
        torch.testing.assert_close(again(words())[0], made(words())[0])


@pytest.mark.parametrize(("left", "right"), [(1, 0), (5, 3), (0, 4)])
def test_a_label_does_not_depend_on_where_the_text_stands(left: int, right: int) -> None:
    m = head(AutoModelForSequenceClassification)
    with torch.no_grad():
        here, there = m(**padded(words(), 0, 0)).logits, m(**padded(words(), left, right)).logits
        torch.testing.assert_close(there, here)
        assert (m(**padded(words().flip(1), 0, 0)).logits - here).abs().max() > 0.01  # and order does matter


@pytest.mark.parametrize(("left", "right"), [(1, 0), (5, 3)])
def test_a_span_moves_with_its_text(left: int, right: int) -> None:
    m = head(AutoModelForQuestionAnswering)
    with torch.no_grad():
        here, there = m(**padded(words(), 0, 0)), m(**padded(words(), left, right))
    for one in ("start_logits", "end_logits"):
        torch.testing.assert_close(there[one][:, left : left + 9], here[one])


def test_rows_shift_each_by_its_own() -> None:
    rows = torch.tensor([[0, 0, 1, 2], [3, 4, 5, 0]])
    assert to_the_front(rows, torch.tensor([2, 0])).tolist() == [[1, 2, 0, 0], [3, 4, 5, 0]]


def test_gradients_reach_every_weight() -> None:
    label, span = torch.tensor([0, 2]), torch.tensor([1, 3])
    one, two = head(AutoModelForSequenceClassification).train(), head(AutoModelForQuestionAnswering).train()
    one(**padded(words(), 0, 2), labels=label).loss.backward()
    two(**padded(words(), 0, 2), start_positions=span, end_positions=span).loss.backward()
    for m in (one, two):
        assert [name for name, p in m.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []
