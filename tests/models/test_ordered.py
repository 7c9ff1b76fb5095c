"""The two streams: who sees whom by definition, hidden states against transformers' own causal BERT, gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM

from anyorder.errors import AnyorderError
from anyorder.models.layers import first_position
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
    _, turn = texts(rows=20, n=6)
    streams = two_streams(turn)
    number = 0
    for b in range(len(turn)):
        when = turn[b].tolist()
        for i in range(6):
            # Given tokens see each other; content sees what was given, what was read before it, and itself.
            expected = [j == i or 0 <= when[j] <= when[i] for j in range(6)]
            assert streams.content[b, i].tolist() == expected
        questions = [i for i in range(6) if when[i] > 0]
        assert streams.real[b].tolist() == [k < len(questions) for k in range(streams.real.shape[1])]
        for k, i in enumerate(questions):
            assert streams.asked[number] == 6 * b + i
            assert streams.slot[b, k] == number
            assert streams.questions[b, k].tolist() == [0 <= when[j] < when[i] for j in range(6)]
            number += 1
    assert number == len(streams.asked)


def test_texts_of_one_row_do_not_see_each_other() -> None:
    _, turn = texts(rows=2, n=10)
    text = torch.tensor([[0] * 4 + [1] * 6, [0] * 7 + [1] * 2 + [-1]])
    apart, together = two_streams(turn, text), two_streams(turn)
    same = text[:, :, None] == text[:, None, :]
    assert torch.equal(apart.content, together.content & same)
    assert not apart.questions[~together.questions].any()
    for b, k in streams_of(apart):
        at = int(apart.asked[apart.slot[b, k]]) % 10
        assert torch.equal(apart.questions[b, k], together.questions[b, k] & same[b, at])


def streams_of(streams: Streams) -> list[tuple[int, int]]:
    return [(int(b), int(k)) for b, k in streams.real.nonzero()]


def by_transformers(model: Any, tokens: Tensor, turn: Tensor, content_sees_questions: bool = False) -> Tensor:
    """The definition run by transformers' own forward: both streams as one sequence under a mask of all pairs."""
    b, n = tokens.shape
    streams = two_streams(turn)
    k = streams.slot.shape[1]
    place = streams.asked[streams.slot] % n
    visible = torch.zeros((b, n + k, n + k), dtype=torch.bool)
    visible[:, :n, :n], visible[:, n:, :n] = streams.content, streams.questions
    visible[:, n:, n:] = torch.eye(k, dtype=torch.bool)
    if content_sees_questions:
        visible[:, :n, n:] = True
    positions = torch.cat([torch.arange(n).expand(b, n), place], 1)
    inputs = torch.cat([tokens, torch.full((b, k), MASK)], 1)
    mask: Any = visible[:, None]
    if model.config.model_type == "modernbert":
        near = (positions[:, :, None] - positions[:, None, :]).abs() <= model.config.sliding_window
        mask = {"full_attention": mask, "sliding_attention": (visible & near)[:, None]}
    hidden = model.base_model(
        input_ids=inputs, position_ids=positions + (first_position(model) or 0), attention_mask=mask
    )[0]
    return hidden[:, n:][streams.real]


BY_TRANSFORMERS = [family for family in FAMILIES if family != "anyorder-relative-bert"]


@pytest.mark.parametrize("family", BY_TRANSFORMERS)
def test_states_are_those_of_transformers_under_the_mask(family: str) -> None:
    model = tiny_model(family).double()
    tokens, turn = texts(rows=5)
    with torch.no_grad():
        found, expected, mutated = (
            OrderedStates(model, MASK)(tokens, turn),
            by_transformers(model, tokens, turn),
            by_transformers(model, tokens, turn, content_sees_questions=True),
        )
    close = 1e-5 if family == "modernbert" else 1e-12  # it turns in single precision
    torch.testing.assert_close(found, expected, atol=close, rtol=0)
    # The mutation that a reading in order must not suffer: were questions seen, this is how it would be noticed.
    assert float((found - mutated).abs().max()) > 1e-2


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


@pytest.mark.parametrize("family", FAMILIES)
def test_a_question_changes_nothing_but_its_own_answer(family: str) -> None:
    model = tiny_model(family).double()
    tokens, turn = texts(rows=1)
    every = OrderedStates(model, MASK)(tokens, turn)
    of = (turn > 0)[0].nonzero()[:, 0].tolist()
    for t in range(1, int(turn.max()) + 1):
        # Without what comes later: fewer questions and less content beside it.
        fewer = torch.where(turn > t, -1, turn)
        some = OrderedStates(model, MASK)(tokens, fewer)
        last = int((turn[0] == t).nonzero())
        place = (fewer > 0)[0].nonzero()[:, 0].tolist().index(last)
        torch.testing.assert_close(some[place], every[of.index(last)], atol=1e-12, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_and_padding_change_nothing(family: str) -> None:
    model = tiny_model(family).double()
    tokens, turn = texts()
    together = OrderedStates(model, MASK)(tokens, turn)
    one_by_one = torch.cat([OrderedStates(model, MASK)(tokens[b : b + 1], turn[b : b + 1]) for b in range(len(turn))])
    torch.testing.assert_close(together, one_by_one, atol=1e-12, rtol=0)
    shorter = OrderedStates(model, MASK)(tokens[:1, :-3], turn[:1, :-3])  # never read: it might as well not be there
    torch.testing.assert_close(together[: len(shorter)], shorter, atol=1e-12, rtol=0)


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
