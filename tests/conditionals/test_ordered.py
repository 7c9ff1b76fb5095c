"""The Ordered contract, held by every implementation: kept equals read afresh, however it is split and batched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from anyorder.conditionals import ModelConditionals, ModelOrdered, Reread, random_joint
from anyorder.conditionals import ordered as ordered_module
from anyorder.errors import AnyorderError
from anyorder.models import memory as memory_module
from anyorder.models.ordered import FAMILIES, TRAINED, turns
from anyorder.types import Ordered
from tiny import VOCAB, tiny_model

MASK, PAD = 4, 0
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def model_ordered(family: str, dtype: torch.dtype = torch.float64, **options: Any) -> ModelOrdered:
    model = tiny_model(family, **{TRAINED: True}).to(dtype)
    return ModelOrdered(model, mask_id=MASK, pad_id=PAD, max_length=60, **options)


def implementation(name: str) -> Ordered:
    if name == "table":
        return Reread(random_joint(torch.Generator().manual_seed(0), 3, 6))
    if name == "reread":
        return Reread(ModelConditionals(tiny_model("bert"), mask_id=MASK, pad_id=PAD, max_length=60))
    return model_ordered(name)


def batch(name: str, rows: int = 5, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Texts of different length, with different given tokens, each with an order of the others."""
    g = torch.Generator().manual_seed(seed)
    n, low, high = (6, 0, 3) if name == "table" else (17, 5, len(VOCAB))
    tokens = torch.randint(low, high, (rows, n), generator=g)
    lengths = torch.randint(n // 2, n + 1, (rows,), generator=g) if name != "table" else torch.full((rows,), n)
    lengths[0] = n
    real = torch.arange(n) < lengths[:, None]
    tokens = tokens.masked_fill(~real, PAD)
    given = (torch.rand((rows, n), generator=g) < torch.rand((rows, 1), generator=g)) & real
    given[0] = False  # the first knows nothing at all
    if rows > 2:
        given[2] = real[2]  # and the third everything
    order = torch.full((rows, n), -1)
    for b in range(rows):
        free = (real[b] & ~given[b]).nonzero()[:, 0]
        order[b, : len(free)] = free[torch.randperm(len(free), generator=g)]
    return tokens, given, order


def one_by_one(ordered: Ordered, tokens: Tensor, given: Tensor, order: Tensor) -> Tensor:
    """[B, K, V] the answers along the order, one question and one token at a time."""
    memory, answers = ordered.begin(tokens, given), []
    for column in order.split(1, 1):
        answers.append(ordered.ask(memory, column))
        memory = ordered.read(memory, column, tokens.gather(1, column.clamp(min=0)))
    return torch.cat(answers, 1)


def along(order: Tensor, tokens: Tensor, log_q: Tensor) -> Tensor:
    """[B, N] log q of the tokens themselves, from answers along the order."""
    place = order.clamp(min=0)
    of_token = log_q.gather(-1, tokens.gather(1, place)[..., None])[..., 0].double()
    return torch.zeros(tokens.shape, dtype=torch.float64).scatter_add(1, place, of_token.where(order >= 0, 0.0))


NAMES = ["table", "reread", *FAMILIES]


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_distributions_and_none_is_uniform(name: str) -> None:
    ordered = implementation(name)
    assert isinstance(ordered, Ordered)
    tokens, given, order = batch(name)
    log_q = one_by_one(ordered, tokens, given, order)
    torch.testing.assert_close(log_q.logsumexp(-1), torch.zeros(order.shape, dtype=log_q.dtype), atol=1e-5, rtol=0)
    nothing = log_q[order < 0]
    torch.testing.assert_close(nothing, torch.full_like(nothing, 1 / ordered.vocab_size).log())
    assert float((log_q[order >= 0].exp().amax(-1) - 1 / ordered.vocab_size).min()) > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_the_chain_is_the_sum_of_its_questions(name: str) -> None:
    ordered = implementation(name)
    tokens, given, order = batch(name)
    expected = along(order, tokens, one_by_one(ordered, tokens, given, order))
    found = ordered.chain(tokens, given, order)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, atol=1e-5 if name == "reread" else 1e-10, rtol=0)
    assert not found[turns(given, order) <= 0].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rows", [1, 2, 5, 33, 256])
def test_kept_equals_read_afresh_in_batches_of_any_size(family: str, dtype: torch.dtype, rows: int) -> None:
    ordered = model_ordered(family, dtype)
    tokens, given, order = batch(family, rows, seed=rows)
    kept = along(order, tokens, one_by_one(ordered, tokens, given, order))
    close = TOLERANCE[dtype]
    torch.testing.assert_close(kept, ordered.chain(tokens, given, order), atol=close, rtol=close)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_any_split_into_reads_and_any_questions_on_the_way_are_the_same(family: str, seed: int) -> None:
    ordered = model_ordered(family)
    tokens, given, order = batch(family, seed=seed)
    expected = one_by_one(ordered, tokens, given, order)
    g = torch.Generator().manual_seed(seed)
    memory, done = ordered.begin(tokens, given), 0
    while done < order.shape[1]:
        # All that is still open is asked: the first column is the next in the order.
        rest = order[:, done:]
        assert torch.equal(memory.known, turns(given, rest) <= 0)
        for _ in range(2):  # asking changes nothing
            found = ordered.ask(memory, rest)
            torch.testing.assert_close(found[:, 0], expected[:, done], atol=1e-10, rtol=0)
        step = int(torch.randint(1, 6, (1,), generator=g))
        for part in order[:, done : done + step].split(int(torch.randint(1, 4, (1,), generator=g)), 1):
            memory = ordered.read(memory, part, tokens.gather(1, part.clamp(min=0)))
        done += step
    assert bool(memory.known.all())


@pytest.mark.parametrize("family", FAMILIES)
def test_questions_asked_together_do_not_know_of_each_other(family: str) -> None:
    ordered = model_ordered(family)
    tokens, given, order = batch(family)
    for known in (given, torch.zeros_like(given)):
        asked = order if known is given else torch.arange(5).expand(len(tokens), 5)
        together = ordered.ask(ordered.begin(tokens, known), asked)
        memory = ordered.begin(tokens, known)
        alone = torch.cat([ordered.ask(memory, column) for column in asked.split(1, 1)], 1)
        torch.testing.assert_close(together, alone, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [1, 5])
def test_questions_on_the_way_are_those_between_single_reads_and_what_is_forgotten_was_never_read(
    name: str, rows: int
) -> None:
    """A chain of guesses is read with its questions, its end forgotten, and the true tokens read in its place."""
    ordered = implementation(name)
    tokens, given, order = batch(name, rows)
    order = torch.cat([order, torch.full((rows, 1), -1)], 1)
    expected = one_by_one(ordered, tokens, given, order)
    close = {"atol": 1e-5 if name == "reread" else 1e-10, "rtol": 0, "check_dtype": False}
    g = torch.Generator().manual_seed(rows)
    memory, turn, most = ordered.begin(tokens, given), 0, order.shape[1] - 1
    while turn < most:
        width, right = 1 + int(torch.randint(4, (1,), generator=g)), 1 + int(torch.randint(3, (1,), generator=g))
        now, then = order[:, turn : turn + width], order[:, turn + 1 : turn + width + 1]
        now = now[:, : then.shape[1]]
        right = min(right, now.shape[1])
        guesses = tokens.gather(1, now.clamp(min=0))
        guesses[:, right:] = guesses[:, right:].flip(1).roll(1, 0)  # the first are right, the others hardly
        memory, answers = ordered.read_asking(memory, now, guesses, then)
        torch.testing.assert_close(answers[:, :right], expected[:, turn + 1 : turn + right + 1], **close)
        memory = ordered.forget(memory, torch.where(torch.arange(now.shape[1]) < right, -1, now))
        turn += right
        assert torch.equal(memory.known, turns(given, order[:, turn:]) <= 0)
    assert bool(memory.known.all())


def test_many_questions_on_the_way_are_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, given, order = batch("bert")
    now, then = order[:, :5], order[:, 1:6]
    asked = model_ordered("bert"), tokens.gather(1, now.clamp(min=0))
    memory, whole = asked[0].read_asking(asked[0].begin(tokens, given), now, asked[1], then)
    monkeypatch.setattr(ordered_module, "SPARE", 4)
    again, single = asked[0].read_asking(asked[0].begin(tokens, given), now, asked[1], then)
    torch.testing.assert_close(whole, single, atol=1e-10, rtol=0)
    rest = order[:, 5:]
    torch.testing.assert_close(asked[0].ask(memory, rest), asked[0].ask(again, rest), atol=1e-10, rtol=0)


def test_only_the_last_read_can_be_forgotten() -> None:
    ordered = model_ordered("bert")
    tokens = torch.full((1, 6), 7)
    memory = ordered.begin(tokens, torch.zeros((1, 6), dtype=torch.bool))
    memory = ordered.read(memory, torch.tensor([[3, 1, 4]]), tokens[:, :3])
    with pytest.raises(AnyorderError, match="read last"):
        ordered.forget(memory, torch.tensor([[3]]))
    with pytest.raises(AnyorderError, match="asked after it was read"):
        ordered.read_asking(memory, torch.tensor([[0, 2]]), tokens[:, :2], torch.tensor([[2, 0]]))


def test_were_a_question_seen_by_what_comes_after_it_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = model_ordered("bert")
    tokens, given, order = batch("bert", rows=1)
    expected = ordered.chain(tokens, given, order)
    torch.testing.assert_close(along(order, tokens, one_by_one(ordered, tokens, given, order)), expected)
    stairs = memory_module._stairs
    monkeypatch.setattr(memory_module, "_stairs", lambda *sizes: torch.ones_like(stairs(*sizes)))
    mutated = along(order, tokens, one_by_one(ordered, tokens, given, order))
    assert float((mutated - expected).abs().max()) > 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_that_read_nothing_in_between_are_as_if_alone(family: str) -> None:
    ordered = model_ordered(family)
    tokens, given, order = batch(family)
    expected = one_by_one(ordered, tokens, given, order)
    memory = ordered.begin(tokens, given)
    turn = torch.zeros(len(tokens), dtype=torch.long)
    g = torch.Generator().manual_seed(7)
    while bool(((turn < order.shape[1]) & (order.gather(1, turn[:, None].clamp(max=16))[:, 0] >= 0)).any()):
        now = order.gather(1, turn[:, None].clamp(max=order.shape[1] - 1))
        now = torch.where((torch.rand((len(tokens), 1), generator=g) < 0.5) & (turn[:, None] < order.shape[1]), now, -1)
        found = ordered.ask(memory, now)[:, 0]
        acts = now[:, 0] >= 0
        want = expected[torch.arange(len(tokens)), turn.clamp(max=order.shape[1] - 1)]
        torch.testing.assert_close(found[acts], want[acts], atol=1e-10, rtol=0)
        memory = ordered.read(memory, now, tokens.gather(1, now.clamp(min=0)))
        turn += acts.long()


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_padding_and_budgets_change_nothing(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = model_ordered(family)
    tokens, given, order = batch(family, rows=6)
    chain, answers = ordered.chain(tokens, given, order), one_by_one(ordered, tokens, given, order)
    for b in range(6):
        n = int((tokens[b] != PAD).sum())
        row = tokens[b : b + 1, :n], given[b : b + 1, :n], order[b : b + 1, : max(1, int((order[b] >= 0).sum()))]
        torch.testing.assert_close(ordered.chain(*row)[0], chain[b, :n], atol=1e-10, rtol=0)
        alone = one_by_one(ordered, *row)
        torch.testing.assert_close(alone[0], answers[b, : alone.shape[1]], atol=1e-10, rtol=0)
    monkeypatch.setattr(ordered_module, "TOKEN_BUDGET", 40)
    monkeypatch.setattr(ordered_module, "_LOGITS", 3 * len(VOCAB))
    monkeypatch.setattr(memory_module, "_TOKENS", 12)
    torch.testing.assert_close(ordered.chain(tokens, given, order), chain, atol=1e-10, rtol=0)
    torch.testing.assert_close(one_by_one(ordered, tokens, given, order), answers, atol=1e-10, rtol=0)
    memory = ordered.read(ordered.begin(tokens, given), order[:, :5], tokens.gather(1, order[:, :5].clamp(min=0)))
    torch.testing.assert_close(ordered.ask(memory, order[:, 5:])[:, 0], answers[:, 5], atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["reread", "bert"])
def test_rows_without_a_token_score_nothing(name: str) -> None:
    ordered = implementation(name)
    tokens = torch.tensor([[PAD] * 4, [2, 10, 11, 3], [PAD] * 4])
    given = torch.tensor([[False] * 4, [True, False, False, True], [False] * 4])
    order = torch.tensor([[-1, -1], [2, 1], [-1, -1]])
    found = ordered.chain(tokens, given, order)
    assert not found[[0, 2]].any()
    torch.testing.assert_close(found[1:2], ordered.chain(tokens[1:2], given[1:2], order[1:2]))
    assert not ordered.chain(tokens[:1], given[:1], order[:1]).any()


def test_what_is_neither_given_nor_in_the_order_is_never_seen() -> None:
    ordered = model_ordered("bert")
    tokens, given, order = batch("bert", rows=1)
    some, other = order[:, :4], tokens.clone()
    other[0, order[0, 4:]] = 9
    assert torch.equal(ordered.chain(tokens, given, some), ordered.chain(other, given, some))


def test_the_table_is_exact_along_any_order() -> None:
    table = random_joint(torch.Generator().manual_seed(3), 3, 4)
    tokens = table.states
    order = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(i)) for i in range(len(tokens))])
    chain = Reread(table).chain(tokens, torch.zeros_like(tokens, dtype=torch.bool), order)
    torch.testing.assert_close(chain.sum(1), table.log_prob(tokens), atol=1e-12, rtol=0)


def test_the_law_of_a_model_read_in_order_sums_to_one() -> None:
    ordered = model_ordered("bert")
    v = ordered.vocab_size
    words = torch.cartesian_prod(torch.arange(v), torch.arange(v))
    words = words[(words != PAD).all(1)]  # a token that is padding cannot be scored; its share is counted below
    tokens = torch.tensor([[2, 30, 31, 40, 3]]).repeat(len(words), 1)
    tokens[:, 1:3] = words
    given = torch.tensor([[True, False, False, True, True]])
    chain = ordered.chain(tokens, given.expand(len(words), -1), torch.tensor([[2, 1]]).expand(len(words), 2))
    share = ordered.ask(ordered.begin(tokens[:1], given), torch.tensor([[2]]))[0, 0].exp()
    first = torch.arange(1, v)[:, None]
    memory = ordered.begin(tokens[: v - 1], given.expand(v - 1, -1))
    memory = ordered.read(memory, torch.full_like(first, 2), first)
    second = ordered.ask(memory, torch.ones_like(first))[:, 0, PAD].exp()
    assert float(chain.sum(1).exp().sum() + share[PAD] + (share[1:] * second).sum()) == pytest.approx(1.0, abs=1e-9)


def test_a_memory_that_was_read_on_with_is_refused() -> None:
    ordered = model_ordered("bert")
    tokens, given, order = batch("bert")
    first = ordered.begin(tokens, given)
    ordered.read(first, order[:, :1], tokens.gather(1, order[:, :1].clamp(min=0)))
    with pytest.raises(AnyorderError, match="use what read\\(\\) returned, or begin again"):
        ordered.ask(first, order[:, 1:2])


def test_a_model_not_trained_for_it_is_refused_unless_one_insists() -> None:
    sizes = {"mask_id": MASK, "pad_id": PAD, "max_length": 60}
    with pytest.raises(AnyorderError, match=r"not trained to be read in order.*read it in full"):
        ModelOrdered(tiny_model("bert"), **sizes)
    ModelOrdered(tiny_model("bert"), **sizes, untrained=True)


@pytest.mark.parametrize("name", ["table", "bert"])
def test_mistakes_are_answered_in_one_line(name: str) -> None:
    ordered = implementation(name)
    tokens, given, order = batch(name, rows=2)
    memory = ordered.begin(tokens, given)
    n = tokens.shape[1]
    free = order[:, :1]
    twice = torch.cat([free, free], 1)
    cases = [
        ("twice", lambda: ordered.chain(tokens, given, twice)),
        ("twice", lambda: ordered.read(memory, twice, twice)),
        ("twice", lambda: ordered.ask(memory, twice)),
        ("in rows of", lambda: ordered.ask(memory, torch.full((2, 1), n))),
        ("in rows of", lambda: ordered.chain(tokens, given, torch.full((2, 1), -2))),
        ("a row for each text", lambda: ordered.ask(memory, free[:1])),
        ("build given with torch.bool", lambda: ordered.begin(tokens, given.long())),
    ]
    for match, mistake in cases:
        with pytest.raises(AnyorderError, match=match) as error:
            mistake()
        assert "\n" not in str(error.value)
    memory = ordered.read(memory, free, tokens.gather(1, free.clamp(min=0)))
    with pytest.raises(AnyorderError, match="is read though it is known"):
        ordered.read(memory, free, tokens.gather(1, free.clamp(min=0)))
    with pytest.raises(AnyorderError, match="is asked though it is known"):
        ordered.ask(memory, free)
    with pytest.raises(AnyorderError, match="stands in the order though it is known"):
        ordered.chain(tokens, torch.ones_like(given), free)


def test_more_tokens_than_the_model_holds() -> None:
    ordered = model_ordered("bert")
    tokens = torch.full((1, 61), 7)
    with pytest.raises(AnyorderError, match="a text of 61 tokens is longer than the model's maximum of 60"):
        ordered.begin(tokens, tokens > 0)
    padded = torch.cat([tokens[:, :60], torch.full((1, 1), PAD)], 1)
    assert bool(ordered.begin(padded, padded < 0).known[0, 60])  # padding is no token
