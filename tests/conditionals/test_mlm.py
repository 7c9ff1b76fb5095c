"""ModelConditionals against the plain full forward of the same model."""

from __future__ import annotations

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anyorder.conditionals import ModelConditionals
from anyorder.conditionals.mlm import _PASS, micro_batches
from anyorder.errors import AnyorderError
from anyorder.models.heads import head_of
from tiny import FAMILIES
from tiny import tiny_model as float_model

MASK, PAD = 4, 0
NOISE = 1e-4  # of float32 arithmetic at the size of these models' logits (tens)


def tiny_model(family: str, **changes: Any) -> Any:
    """In float64, so that a difference above 1e-5 is a mistake and not rounding."""
    return float_model(family, **changes).double()


def conditionals_of(model: Any, **options: Any) -> ModelConditionals:
    return ModelConditionals(model, **{"mask_id": MASK, "pad_id": PAD, "max_length": 60, **options})


def questions(vocab_size: int, rows: int = 9, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Masked rows of mixed length, and questions: some are -1, some repeated, some about observed tokens."""
    g = torch.Generator().manual_seed(seed)
    n, k = 24, 5
    tokens = torch.randint(5, vocab_size, (rows, n), generator=g)
    tokens[torch.rand(rows, n, generator=g) < 0.3] = MASK
    lengths = torch.randint(3, n + 1, (rows,), generator=g)
    tokens[torch.arange(n) >= lengths[:, None]] = PAD
    positions = (torch.rand(rows, k, generator=g) * lengths[:, None]).long()
    positions[torch.rand(rows, k, generator=g) < 0.3] = -1
    return tokens, positions


@torch.inference_mode()
def full_forward(model: Any, tokens: Tensor, positions: Tensor) -> Tensor:
    """The reference: one row at a time, without padding, every position, log_softmax, then the asked ones."""
    out = torch.empty(*positions.shape, model(input_ids=tokens[:1, :2]).logits.shape[-1])
    for b, row in enumerate(tokens):
        log_q = model(input_ids=row[row != PAD][None]).logits[0].log_softmax(-1)
        out[b] = log_q[positions[b].clamp(min=0)]
    return torch.where((positions < 0)[..., None], -math.log(out.shape[-1]), out)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_equals_its_full_forward(family: str) -> None:
    model = tiny_model(family)
    c = conditionals_of(model, token_budget=50)
    tokens, positions = questions(c.vocab_size)
    log_q = c(tokens, positions)
    torch.testing.assert_close(log_q, full_forward(model, tokens, positions), atol=1e-5, rtol=0)
    assert log_q.dtype == torch.float32
    # The test would be empty if the model hardly looked at its input.
    entropy = -(log_q.exp() * log_q).sum(-1)[positions >= 0]
    assert entropy.mean() < 0.9 * math.log(c.vocab_size)
    assert (head_of(model) is None) == (family == "mpnet")


def test_deberta_without_legacy_head() -> None:
    model = tiny_model("deberta-v2", legacy=False)
    tokens, positions = questions(model.config.vocab_size)
    expected = full_forward(model, tokens, positions)
    torch.testing.assert_close(conditionals_of(model)(tokens, positions), expected, atol=1e-5, rtol=0)


def test_micro_batches_change_nothing(tiny_lm: Any) -> None:
    tokens, positions = questions(tiny_lm.conditionals.vocab_size, rows=40)
    whole = conditionals_of(tiny_lm.model, token_budget=10**6)(tokens, positions)
    for budget in (1, 30, 200):
        part = conditionals_of(tiny_lm.model, token_budget=budget)(tokens, positions)
        torch.testing.assert_close(part, whole, atol=NOISE, rtol=0)


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=40), budget=st.integers(1, 200))
@settings(max_examples=100, deadline=None)
def test_micro_batches_cover_all_rows_within_the_budget(lengths: list[int], budget: int) -> None:
    lengths.sort()
    cuts = micro_batches(lengths, budget)
    assert [i for start, stop in cuts for i in range(start, stop)] == list(range(len(lengths)))
    assert all((stop - start) * lengths[stop - 1] <= budget or stop - start == 1 for start, stop in cuts)
    assert cost(lengths, cuts) <= cost(lengths, micro_batches(lengths, budget, alike=True))
    most = max(1, budget // lengths[-1])
    assert cost(lengths, cuts) <= -(-len(lengths) // most) * _PASS + len(lengths) * lengths[-1]
    assert all(lengths[start] == lengths[stop - 1] for start, stop in micro_batches(lengths, budget, alike=True))


def cost(lengths: list[int], cuts: list[tuple[int, int]]) -> int:
    return sum(_PASS + (stop - start) * lengths[stop - 1] for start, stop in cuts)


@pytest.mark.parametrize(
    ("lengths", "cuts"),
    [
        ([10] * 20 + [11] * 20, [(0, 40)]),  # 20 tokens of padding are cheaper than a pass
        ([10] * 20 + [20] * 20, [(0, 20), (20, 40)]),  # 200 are not
        ([10] * 20 + [20] * 20 + [21], [(0, 20), (20, 41)]),
        ([30] * 10, [(0, 5), (5, 10)]),  # the budget, halved evenly
    ],
)
def test_rows_are_padded_where_that_is_cheaper_than_a_pass(lengths: list[int], cuts: list[tuple[int, int]]) -> None:
    assert micro_batches(lengths, 280 if lengths[0] == 30 else 2048) == cuts


def test_logits_in_several_chunks(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, positions = questions(tiny_lm.conditionals.vocab_size)
    expected = tiny_lm.conditionals(tokens, positions)
    monkeypatch.setattr("anyorder.conditionals.mlm._LOGITS", 3 * tiny_lm.conditionals.vocab_size)
    torch.testing.assert_close(tiny_lm.conditionals(tokens, positions), expected, atol=NOISE, rtol=0)


def test_wanted_tokens_alone_are_those_of_the_whole_answer(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    v = tiny_lm.conditionals.vocab_size
    tokens, positions = questions(v)
    positions[1] = positions[1, 0]  # the same question several times
    wanted = torch.randint(v, positions.shape, generator=torch.Generator().manual_seed(1))
    expected = tiny_lm.conditionals(tokens, positions).gather(-1, wanted[..., None])[..., 0]
    expected[positions < 0] = 0.0
    for logits in (2**22, 3 * v):
        monkeypatch.setattr("anyorder.conditionals.mlm._FEW_LOGITS", logits)
        answer = tiny_lm.conditionals.of_tokens(tokens, positions, wanted)
        torch.testing.assert_close(answer, expected, atol=NOISE, rtol=0)


def test_work_is_done_only_where_asked(tiny_lm: Any) -> None:
    """Padding is trimmed, rows without questions and repeated rows are not run, the head sees only the questions."""
    tokens, _ = questions(tiny_lm.conditionals.vocab_size, rows=6)
    tokens[:] = tokens[:1]
    tokens[:, 10:] = PAD
    tokens[:, :10] = torch.where(tokens[:, :10] == PAD, MASK, tokens[:, :10])
    tokens[3:, 1] = 7
    positions = torch.tensor([[2, -1], [2, 5], [-1, -1], [4, 4], [-1, -1], [1, -1]])
    seen: dict[str, list[tuple[int, ...]]] = {"embeddings": [], "last": [], "head": []}
    layer = tiny_lm.model.bert.encoder.layer[-1]
    hooks = [
        module.register_forward_pre_hook(lambda _, args, kwargs, name=name: seen[name].append(
            tuple((args[0] if args else kwargs["input_ids"]).shape)), with_kwargs=True)
        for name, module in [("embeddings", tiny_lm.model.bert.embeddings), ("last", layer.intermediate),
                             ("head", tiny_lm.model.cls)]
    ]  # fmt: skip
    log_q = tiny_lm.conditionals(tokens, positions)
    for hook in hooks:
        hook.remove()
    hidden = tiny_lm.model.config.hidden_size
    assert seen == {"embeddings": [(2, 10)], "last": [(4, hidden)], "head": [(4, hidden)]}
    torch.testing.assert_close(log_q, full_forward(tiny_lm.model, tokens, positions), atol=NOISE, rtol=0)


def test_nothing_asked_runs_nothing(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_lm.conditionals, "_run", lambda *_: pytest.fail("the model was run"))
    v = tiny_lm.conditionals.vocab_size
    log_q = tiny_lm.conditionals(torch.full((3, 200), MASK), torch.full((3, 2), -1))
    torch.testing.assert_close(log_q, torch.full((3, 2, v), -math.log(v)))
    assert tiny_lm.conditionals(torch.full((3, 5), MASK), torch.empty(3, 0, dtype=torch.long)).shape == (3, 0, v)
    empty = tiny_lm.conditionals(torch.empty(0, 5, dtype=torch.long), torch.empty(0, 2, dtype=torch.long))
    assert empty.shape == (0, 2, v)


def test_the_answer_may_be_changed_in_place(tiny_lm: Any) -> None:
    log_q = tiny_lm.conditionals(torch.full((1, 5), MASK), torch.tensor([[1]]))
    log_q[..., MASK] = -torch.inf
    assert not log_q.requires_grad


def test_without_padding_every_token_is_attended_to() -> None:
    model = tiny_model("bert")
    tokens, _ = questions(model.config.vocab_size)
    positions = torch.zeros(len(tokens), 1, dtype=torch.long)
    with torch.inference_mode():
        expected = model(input_ids=tokens).logits.log_softmax(-1)[:, :1].float()
    torch.testing.assert_close(conditionals_of(model, pad_id=None)(tokens, positions), expected, atol=1e-5, rtol=0)


def test_the_model_itself_is_left_alone() -> None:
    model = tiny_model("modernbert")
    tokens = torch.full((1, 6), MASK)
    before = model(input_ids=tokens).logits
    conditionals_of(model)(tokens, torch.tensor([[2]]))
    torch.testing.assert_close(model(input_ids=tokens).logits, before)
    assert model(input_ids=tokens).logits.requires_grad


def test_new_weights_are_seen() -> None:
    """The narrowed backbone shares the model's weights, so training between calls counts."""
    model = tiny_model("bert")
    c = conditionals_of(model)
    tokens, positions = questions(c.vocab_size)
    c(tokens, positions)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    torch.testing.assert_close(c(tokens, positions), full_forward(model, tokens, positions), atol=1e-5, rtol=0)


def test_threads_do_not_mix_their_answers(tiny_lm: Any) -> None:
    asked = [questions(tiny_lm.conditionals.vocab_size, seed=s) for s in range(8)]
    alone = [tiny_lm.conditionals(*q) for q in asked]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda q: tiny_lm.conditionals(*q), asked))
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("tokens", "positions", "message"),
    [
        (torch.full((1, 61), MASK), [[0]], "61 tokens is longer than the model's maximum of 60"),
        (torch.full((1, 6), MASK), [[6]], "position 6 asked of rows of 6 tokens"),
        (torch.tensor([[2, MASK, PAD]]), [[2]], "holds padding"),
    ],
)
def test_questions_without_an_answer(tiny_lm: Any, tokens: Tensor, positions: list[list[int]], message: str) -> None:
    with pytest.raises(AnyorderError, match=message):
        conditionals_of(tiny_lm.model)(tokens, torch.tensor(positions))


def test_nan_is_an_error_and_not_an_answer() -> None:
    """ESM divides by the share of observed tokens."""
    with pytest.raises(AnyorderError, match="answers NaN"):
        conditionals_of(tiny_model("esm"))(torch.full((1, 6), MASK), torch.tensor([[0]]))
    with pytest.raises(AnyorderError, match="answers NaN"):
        conditionals_of(tiny_model("esm")).of_tokens(torch.full((1, 6), MASK), torch.tensor([[0]]), torch.tensor([[0]]))


def test_padding_does_not_count_as_length(tiny_lm: Any) -> None:
    tokens = torch.full((1, 200), PAD)
    tokens[0, :5] = MASK
    short = tiny_lm.conditionals(tokens[:, :5], torch.tensor([[1]]))
    torch.testing.assert_close(tiny_lm.conditionals(tokens, torch.tensor([[1]])), short)


def test_a_family_that_runs_in_full_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    class Remote(type(tiny_model("bert"))):  # type: ignore[misc]  # a base known only at run time
        """Code that calls itself bert and is not transformers' own."""

    model = Remote(tiny_model("bert").config).eval().double()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            c = conditionals_of(model)
    assert [r.message for r in caplog.records if "Remote" in r.message] == [
        "Remote has no known split into backbone and LM head: every position is worked out, not only those asked"
    ]
    tokens, positions = questions(c.vocab_size)
    torch.testing.assert_close(c(tokens, positions), full_forward(model, tokens, positions), atol=1e-5, rtol=0)
