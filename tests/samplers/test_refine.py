"""Mask-predict: against a plain reading of the paper, and on drafts."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from anyorder.conditionals import Table
from anyorder.errors import AnyorderError
from anyorder.samplers import refine, run, stream


def _g(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mask_predict(model, tokens, free, steps):
    """One row, one loop, one list: mask-predict as the paper writes it."""
    places = free.nonzero().squeeze(1).tolist()
    tokens, certainty = tokens.clone(), {}
    for p in places:
        tokens[p] = model.mask_id
    for t in range(steps):
        count = max(1, len(places) * (steps - t) // steps)
        chosen = places if t == 0 else sorted(places, key=lambda p: certainty[p])[:count]
        for p in chosen:
            tokens[p] = model.mask_id
        log_q = model(tokens[None], torch.tensor([chosen]))[0]
        for k, p in enumerate(chosen):
            certainty[p], tokens[p] = float(log_q[k].max()), int(log_q[k].argmax())
    return tokens


@pytest.mark.parametrize("steps", [1, 2, 4, 10])
def test_greedy_from_masks_is_the_papers_algorithm(batch, steps):
    model, tokens, free = batch
    out = run(refine(model, steps=steps), tokens, free, generator=_g()).tokens
    for row in range(3):
        assert torch.equal(out[row], mask_predict(model, tokens[row], free[row], steps))


def test_remasking_decays_linearly(batch):
    model, tokens, free = batch
    trace = run(refine(model, steps=5, greedy=False), tokens, free, generator=_g()).trace
    assert (trace.positions[:, 0] >= 0).sum(1).tolist() == [10, 8, 6, 4, 2]


def test_the_least_certain_are_remasked(batch):
    model, tokens, free = batch
    states = list(stream(refine(model, steps=5, greedy=False), tokens, free, generator=_g()))
    for (before, _), (_, info) in pairwise(states):
        taken = info.positions[0][info.positions[0] >= 0]
        certainty = before.certainty[0].masked_fill(~free[0], torch.inf)
        assert set(taken.tolist()) == set(certainty.argsort()[: len(taken)].tolist())


def shift_world():
    """Two texts, each a shift of the other: 1 2 3 4 and 0 1 2 3. Drawn apart, neighbours stutter: 1 1, 2 2."""
    p = torch.full([5] * 4, 1e-6, dtype=torch.float64)
    p[1, 2, 3, 4], p[0, 1, 2, 3] = 0.5, 0.5
    return Table(p.log())


@pytest.mark.parametrize("draft", [[1, 1, 2, 3], [0, 1, 3, 3], [1, 2, 2, 3], [0, 0, 2, 3]])
def test_a_stuttering_draft_is_repaired(draft):
    world = shift_world()
    tokens = torch.tensor([draft] * 20)
    result = run(
        refine(world, steps=6, start="given"), tokens, torch.ones_like(tokens, dtype=torch.bool), generator=_g()
    )
    for text in result.tokens.tolist():
        assert text in ([1, 2, 3, 4], [0, 1, 2, 3])


def test_a_good_draft_stays_and_costs_one_look_and_its_steps():
    world = shift_world()
    tokens = torch.tensor([[1, 2, 3, 4]] * 3)
    free = torch.ones_like(tokens, dtype=torch.bool)
    result = run(refine(world, steps=9, start="given"), tokens, free, generator=_g())
    assert torch.equal(result.tokens, tokens)
    assert result.rows == 3 * (4 + 9)


def test_a_draft_with_masks_in_it_is_filled():
    world = shift_world()
    tokens = torch.tensor([[1, 5, 5, 5]] * 3)
    result = run(
        refine(world, steps=1, start="given"), tokens, torch.ones_like(tokens, dtype=torch.bool), generator=_g()
    )
    assert (result.tokens < 5).all()


def test_a_random_start_is_uniform_over_what_is_possible(batch):
    model, tokens, free = batch
    seen: list[torch.Tensor] = []

    class Spy:
        vocab_size, mask_id, pad_id = model.vocab_size, model.mask_id, model.pad_id

        def __call__(self, tokens, positions):
            seen.append(tokens.clone())
            return model(tokens, positions)

    many, many_free = tokens[:1].repeat(300, 1), free[:1].repeat(300, 1)
    run(refine(Spy(), steps=3, start="random"), many, many_free, generator=_g(), steps=1)
    # The second call shows what stands after n·T/(T+1) of the random tokens were masked again.
    shown = seen[1][:, 1:11]
    standing = shown[shown != model.mask_id]
    assert len(standing) == 300 * (10 - 10 * 3 // 4)
    assert (standing >= 5).all(), "banned tokens are not part of the noise"
    count = torch.bincount(standing, minlength=model.vocab_size)[5:].double()
    expected = len(standing) / (model.vocab_size - 5)
    degrees = model.vocab_size - 6
    assert abs(((count - expected) ** 2 / expected).sum() - degrees) < 4 * (2 * degrees) ** 0.5


def test_bad_settings_are_refused(batch):
    model, *_ = batch
    with pytest.raises(AnyorderError, match="at least one step"):
        refine(model, steps=0)
    with pytest.raises(AnyorderError, match="unknown start"):
        refine(model, start="noise")
