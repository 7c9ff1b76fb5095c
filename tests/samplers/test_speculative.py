"""Speculative decoding in any order: the law of one token at a time, whatever is guessed."""

from __future__ import annotations

import importlib
import itertools

import pytest
import torch
from scipy import stats

from anyorder.conditionals import ModelOrdered, Reread, random_joint
from anyorder.conditionals.restricted import RestrictedOrdered
from anyorder.errors import AnyorderError
from anyorder.models.ordered import TRAINED
from anyorder.samplers import Seeds, run, speculative, warper
from tiny import VOCAB, tiny_model

MODULE = importlib.import_module("anyorder.samplers.speculative")  # the package's name of it is the function

N, V, ROWS = 4, 3, 20_000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def table():
    """Strongly dependent tokens: independent guesses are often wrong."""
    return random_joint(generator(), V, N, concentration=0.2)


def blanks(table, rows):
    tokens = torch.full((rows, table.length), table.mask_id)
    return tokens, torch.ones_like(tokens, dtype=torch.bool)


def p_value(tokens: torch.Tensor, law: torch.Tensor) -> float:
    """Of Pearson's χ² of texts [B, N] against their exact law [V, ..., V]; cells that expect under 5 are one."""
    number = (tokens * V ** torch.arange(N - 1, -1, -1)).sum(1)
    count = torch.bincount(number, minlength=V**N).double()
    expected = law.flatten() * len(tokens)
    rare = expected < 5
    count = torch.cat([count[~rare], count[rare].sum()[None]])
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    return float(stats.chisquare(count.numpy(), expected.numpy() * float(count.sum() / expected.sum())).pvalue)


@pytest.mark.parametrize("guesses", [1, 2, 3, 7])
@pytest.mark.parametrize("order", ["random", "left-to-right", "given:2,0,3,1"])
def test_texts_have_the_law_of_the_joint(table, guesses, order):
    sampler = speculative(Reread(table), guesses=guesses, order=order)
    drawn = run(sampler, *blanks(table, ROWS), generator=generator(guesses)).tokens
    assert p_value(drawn, table.log_joint.exp()) > 1e-4


def test_were_every_guess_kept_the_law_would_be_another(table, monkeypatch):
    right = MODULE._kept_and_one

    def all_kept(log_p, log_q, guess, made, u, warper):
        return right(log_p, log_q, guess, made, (torch.zeros_like(u[0]) - 1, u[1]), warper)

    monkeypatch.setattr(MODULE, "_kept_and_one", all_kept)
    drawn = run(speculative(Reread(table), guesses=3), *blanks(table, ROWS), generator=generator()).tokens
    assert p_value(drawn, table.log_joint.exp()) < 1e-12


def test_warped_conditionals_have_their_own_exact_law(table):
    """At another temperature the law is a product of warped conditionals along the order, no joint's any more."""
    ordered, order = Reread(table), [1, 3, 0, 2]
    law = torch.zeros((V,) * N, dtype=torch.float64)
    for text in itertools.product(range(V), repeat=N):
        tokens = torch.tensor([text])
        memory, log_prob = ordered.begin(tokens, torch.zeros((1, N), dtype=torch.bool)), 0.0
        for place in order:
            at = torch.tensor([[place]])
            log_prob += float((ordered.ask(memory, at)[0, 0].double() / 0.5).log_softmax(-1)[text[place]])
            memory = ordered.read(memory, at, tokens[:, place : place + 1])
        law[text] = log_prob
    sampler = speculative(ordered, guesses=3, order=order, warper=warper(temperature=0.5))
    drawn = run(sampler, *blanks(table, ROWS), generator=generator()).tokens
    assert p_value(drawn, law.exp()) > 1e-4


def test_the_log_prob_is_the_model_s_own_and_each_position_is_filled_once(table):
    result = run(speculative(Reread(table), guesses=2), *blanks(table, 60), generator=generator())
    torch.testing.assert_close(result.log_prob, table.log_prob(result.tokens), atol=1e-9, rtol=0)
    for row in range(60):
        visited = result.trace.positions[:, row]
        assert sorted(visited[visited >= 0].tolist()) == list(range(N))


def test_independent_tokens_take_two_passes_for_all_and_two_tokens_are_the_least(table):
    alone = torch.softmax(torch.randn((N, V), generator=generator(), dtype=torch.float64), -1)
    product = torch.einsum("a,b,c,d->abcd", *alone)
    free = type(table)(product.log())
    trace = run(speculative(Reread(free), guesses=3), *blanks(free, 200), generator=generator()).trace
    assert len(trace) == 1
    trace = run(speculative(Reread(table), guesses=3), *blanks(table, 200), generator=generator()).trace
    filled = (trace.positions >= 0).sum(-1)  # [T, B]
    assert len(trace) == 2
    assert int(filled[0].min()) == 2


def ordered_model(dtype=torch.float64):
    model = tiny_model("bert", **{TRAINED: True}).to(dtype)
    return ModelOrdered(model, mask_id=4, pad_id=0, max_length=60)


def test_a_seed_fixes_each_text_in_any_batch_and_any_padding():
    ordered = RestrictedOrdered(ordered_model(), torch.arange(len(VOCAB)) > 4)
    tokens = torch.full((5, 14), 4)
    free = torch.zeros((5, 14), dtype=torch.bool)
    for row, (given, length) in enumerate([(0, 14), (2, 9), (13, 14), (7, 14), (4, 6)]):
        tokens[row, :given], tokens[row, length:] = 6 + row, 0
        free[row, given:length] = True
    together = run(speculative(ordered, guesses=4), tokens, free, generator=Seeds(3, range(5))).tokens
    for row in range(5):
        length = int((tokens[row] != 0).sum())
        alone = run(
            speculative(ordered, guesses=4), tokens[row : row + 1, :length], free[row : row + 1, :length],
            generator=Seeds(3, [row]),
        ).tokens  # fmt: skip
        assert torch.equal(alone[0], together[row, :length])
    assert bool((together != 4).all())


def test_the_model_s_texts_have_the_probability_of_their_own_chain():
    ordered = ordered_model()
    tokens = torch.full((6, 12), 4)
    free = torch.ones_like(tokens, dtype=torch.bool)
    result = run(speculative(ordered, guesses=3), tokens, free, generator=generator())
    for row in range(6):
        visited = result.trace.positions[:, row].flatten()
        order = visited[visited >= 0][None]
        chain = ordered.chain(result.tokens[row : row + 1], ~free[row : row + 1], order)
        torch.testing.assert_close(result.log_prob[row], chain.sum(), atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("options", "says"), [({"order": "confidence"}, "token by token"), ({"guesses": 0}, "at least one")]
)
def test_mistakes_are_one_line(table, options, says):
    with pytest.raises(AnyorderError, match=says) as error:
        speculative(Reread(table), **options)
    assert "\n" not in str(error.value)
