"""The two streams: who sees whom by definition, hidden states against transformers' own causal BERT, gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM

from anyorder.errors import AnyorderError
from anyorder.models import ordered
from anyorder.models.ordered import FAMILIES, OrderedStates, Streams, turns, two_streams
from anyorder.training.objective import TokenLosses
from tiny import tiny_config, tiny_model

MASK = 4


def texts(rows: int = 3, n: int = 14, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random tokens and turns: some given, some in a random order, the last of the first row never read."""
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(5, 60, (rows, n), generator=g)
    turn = torch.zeros((rows, n), dtype=torch.long)
    for row in turn:
        k = int(torch.randint(1, n + 1, (1,), generator=g))
        row[torch.randperm(n, generator=g)[:k]] = torch.arange(1, k + 1)
    turn[0, -3:] = -1
    return tokens, turn


def test_turns_of_an_order() -> None:
    given = torch.tensor([[True, False, False, False], [False, False, True, False]])
    order = torch.tensor([[3, 1], [0, -1]])
    assert turns(given, order).tolist() == [[0, 2, -1, 1], [1, -1, 0, -1]]


def test_who_sees_whom_is_the_definition() -> None:
    tokens, turn = texts(rows=20, n=6)
    streams = two_streams(tokens, turn, MASK, torch.arange(tokens.shape[1]).expand(tokens.shape))
    for b in range(len(tokens)):
        when = turn[b].tolist()
        questions = [i for i in range(6) if when[i] > 0]
        for i in range(6):
            if when[i] < 0:
                continue
            # Given tokens see each other; content sees what was given, what was read before it, and itself.
            expected = [0 <= when[j] <= when[i] for j in range(6)]
            assert streams.visible[b, i, :6].tolist() == expected
            assert not streams.visible[b, i, 6:].any()  # nothing sees a question
        for slot, i in enumerate(questions):
            assert streams.positions[b, 6 + slot] == i
            assert streams.input_ids[b, 6 + slot] == MASK
            assert streams.visible[b, 6 + slot, :6].tolist() == [0 <= when[j] < when[i] for j in range(6)]
            assert streams.visible[b, 6 + slot, 6:].nonzero()[:, 0].tolist() == [slot]  # but itself
    assert len(streams.asked) == int((turn > 0).sum())


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_without_given_tokens_it_is_a_causal_bert_read_in_the_order(family: str) -> None:
    model = tiny_model(family).double()
    decoder = AutoModelForMaskedLM.from_config(tiny_config(family, is_decoder=True)).double().eval()
    decoder.load_state_dict(model.state_dict())
    n = 9
    tokens = torch.randint(5, 60, (1, n), generator=torch.Generator().manual_seed(1))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(2))
    turn = turns(torch.zeros_like(tokens, dtype=torch.bool), order[None])
    found = OrderedStates(model, MASK)(tokens, turn)  # in reading order
    first = 1 if family == "roberta" else 0  # the padding token is 0
    for t, position in enumerate(order.tolist()):
        read = torch.cat([tokens[:, order[:t]], torch.tensor([[MASK]])], 1)
        hidden = decoder.base_model(input_ids=read, position_ids=order[None, : t + 1] + first, use_cache=False)[0]
        torch.testing.assert_close(found[position], hidden[0, -1], atol=1e-12, rtol=0)


def moved_by_a_question(model: Any, monkeypatch: pytest.MonkeyPatch, content_sees_questions: bool) -> Tensor:
    """[M] bool: whose state changes when the first token in the order is asked about with another word."""
    tokens, turn = texts(rows=1)
    first = int((turn[turn > 0] == 1).nonzero())  # its number among the questions

    def streams(word: int) -> Streams:
        found = two_streams(tokens, turn, MASK, torch.arange(tokens.shape[1]).expand(tokens.shape))
        found.input_ids.view(-1)[found.asked[first]] = word
        if content_sees_questions:
            found.visible[:, :, tokens.shape[1] :] = True
        return found

    states = []
    for word in (MASK, 7):
        monkeypatch.setattr(ordered, "two_streams", lambda *_, word=word: streams(word))
        states.append(OrderedStates(model, MASK)(tokens, turn))
    return (states[0] != states[1]).any(1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_question_changes_nothing_but_its_own_answer(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(family).double()
    assert int(moved_by_a_question(model, monkeypatch, content_sees_questions=False).sum()) == 1
    # The mutation: were questions to be seen, others would change, and this is how it would be noticed.
    assert int(moved_by_a_question(model, monkeypatch, content_sees_questions=True).sum()) > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_padding_and_the_kernel_change_nothing(family: str) -> None:
    model = tiny_model(family).double()
    tokens, turn = texts()
    together = OrderedStates(model, MASK)(tokens, turn)
    one_by_one = torch.cat([OrderedStates(model, MASK)(tokens[b : b + 1], turn[b : b + 1]) for b in range(len(turn))])
    torch.testing.assert_close(together, one_by_one, atol=1e-12, rtol=0)
    shorter = OrderedStates(model, MASK)(tokens[:1, :-3], turn[:1, :-3])  # never read: it might as well not be there
    torch.testing.assert_close(together[: len(shorter)], shorter, atol=1e-12, rtol=0)
    if family != "anyorder-relative-bert":  # has one kernel only
        model.set_attn_implementation("eager")
        torch.testing.assert_close(
            OrderedStates(model, MASK)(tokens, turn), together, atol=1e-5, rtol=0
        )  # eager softmax is in float32


def test_local_layers_of_modernbert_look_no_further_than_their_window() -> None:
    model = tiny_model("modernbert", layer_types=["sliding_attention"], num_hidden_layers=1, local_attention=4).double()
    tokens, turn = texts(rows=1, n=12)
    turn[:] = 0
    turn[0, 6] = 1
    before = OrderedStates(model, MASK)(tokens, turn)
    for place in range(12):
        moved = tokens.clone()
        moved[0, place] += 1
        changed = not torch.equal(OrderedStates(model, MASK)(moved, turn), before)
        assert changed == (0 < abs(place - 6) <= 2), place  # its own token is not in the question


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_equal_finite_differences(family: str) -> None:
    model = tiny_model(family).double().train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    tokens, turn = texts(rows=4)
    turn[1] = -1  # one text read in full, among the others
    masked = turn > 0
    masked[1, ::3] = True
    inputs = torch.where(masked & (turn < 0), MASK, tokens)
    losses = TokenLosses(model, mask_id=MASK)

    def loss() -> Tensor:
        return losses(inputs, tokens, masked, torch.ones_like(tokens), turn=turn).mean()

    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss(), parameters, allow_unused=True)
    g = torch.Generator().manual_seed(3)
    for _ in range(3):
        direction = [torch.randn(p.shape, generator=g, dtype=p.dtype) for p in parameters]
        slope = sum(float((a * b).sum()) for a, b in zip(gradients, direction, strict=True) if a is not None)
        step, values = 1e-6, []
        for sign in (1, -1):
            with torch.no_grad():
                for p, d in zip(parameters, direction, strict=True):
                    p.add_(sign * step * d)
                values.append(float(loss()))
                for p, d in zip(parameters, direction, strict=True):
                    p.sub_(sign * step * d)
        assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5, abs=1e-6)


def test_losses_of_both_readings_stand_row_by_row() -> None:
    model = tiny_model("bert").double()
    tokens, turn = texts(rows=4)
    turn[[1, 3]] = -1
    masked = turn > 0
    masked[1, ::3] = masked[3, 1::2] = True
    inputs = torch.where(masked & (turn < 0), MASK, tokens)
    losses = TokenLosses(model, mask_id=MASK)
    real = torch.ones_like(tokens)
    together = losses(inputs, tokens, masked, real, turn=turn)
    rows = [[x[b : b + 1] for x in (inputs, tokens, masked, real)] for b in range(4)]
    each = [losses(*row, turn=turn[b : b + 1]) for b, row in enumerate(rows)]
    torch.testing.assert_close(together, torch.cat(each), atol=1e-12, rtol=0)


@pytest.mark.parametrize("family", ["electra", "albert", "esm"])
def test_other_families_are_refused_in_a_sentence(family: str) -> None:
    with pytest.raises(AnyorderError, match=f"'{family}' cannot be read in order: read them in full"):
        OrderedStates(tiny_model(family), MASK)


def test_kernels_without_masks_are_refused_in_a_sentence() -> None:
    model = tiny_model("bert")
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(AnyorderError, match="load the model with attn_implementation='sdpa'"):
        OrderedStates(model, MASK)
