"""Every sampler keeps the same promises. Add yours to SAMPLERS and it is held to them too."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from scipy import stats

from anyorder.conditionals import ModelConditionals, Reread, random_joint, text_only
from anyorder.conditionals.wanted import Wanted
from anyorder.errors import AnyorderError
from anyorder.samplers import (
    Seeds,
    adaptive,
    any_order,
    gibbs,
    metropolis,
    parallel,
    refine,
    run,
    speculative,
    stream,
    warper,
)

SKELETON = Path(__file__).parents[2] / "docs" / "skeleton_sampler.py"


def skeleton():
    """The sampler that docs/adding-a-sampler.md tells to copy."""
    spec = importlib.util.spec_from_file_location("skeleton_sampler", SKELETON)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.sweep


sweep = skeleton()

# name -> (factory, steps to make; None: to the end)
SAMPLERS = {
    "any_order random": (lambda c: any_order(c), None),
    "any_order left-to-right": (lambda c: any_order(c, order="left-to-right"), None),
    "any_order confidence": (lambda c: any_order(c, order="confidence"), None),
    "any_order warped": (lambda c: any_order(c, warper=warper(temperature=0.7, top_k=9)), None),
    "any_order read in order": (lambda c: any_order(Reread(c)), None),
    "any_order read in order, confidence": (lambda c: any_order(Reread(c), order="confidence"), None),
    "speculative": (lambda c: speculative(Reread(c), guesses=3), None),
    "parallel confidence": (lambda c: parallel(c, steps=3), None),
    "parallel random": (lambda c: parallel(c, steps=3, commit="random"), None),
    "parallel margin cosine": (lambda c: parallel(c, steps=4, commit="margin", schedule="cosine"), None),
    "parallel entropy bound": (lambda c: parallel(c, epsilon=2.0, commit="entropy"), None),
    "gibbs single": (lambda c: gibbs(c), 14),
    "gibbs block": (lambda c: gibbs(c, block=3), 6),
    "gibbs sequential": (lambda c: gibbs(c, block=3, mode="sequential"), 6),
    "refine": (lambda c: refine(c, steps=4), None),
    "refine random": (lambda c: refine(c, steps=4, start="random", greedy=False), None),
    "refine given": (lambda c: refine(c, steps=4, start="given"), None),
    "metropolis": (lambda c: metropolis(c), 14),
    "the skeleton": (lambda c: sweep(c), None),
    "adaptive": (lambda c: adaptive(c, block=2, blocks=2, threshold=0.3), 8),
}


@pytest.fixture(params=SAMPLERS)
def case(request):
    return SAMPLERS[request.param]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def masked(model, tokens, free):
    return tokens.masked_fill(free, model.mask_id)


def test_info_tells_what_happened(case, batch, counting):
    make, steps = case
    model, tokens, free = batch
    counted = counting(model)
    before, sent = masked(model, tokens, free), 0
    for state, info in stream(make(counted), before, free, generator=generator(), steps=steps):
        rows, slots = info.positions.shape
        assert rows == len(tokens)
        assert info.tokens.shape == info.log_prob.shape == info.entropy.shape == (rows, slots)
        asked = info.positions >= 0
        assert (asked[:, 1:] <= asked[:, :-1]).all(), "slots without a position come last"
        assert free.gather(1, info.positions.clamp(min=0))[asked].all()
        for part in (info.tokens, info.log_prob, info.entropy):
            assert (part[~asked] == 0).all()
        assert (info.log_prob[asked] <= 0).all()
        assert (info.entropy[asked] >= 0).all()
        taken = asked if info.accepted is None else asked & info.accepted[:, None]
        assert torch.equal(state.tokens.gather(1, info.positions.clamp(min=0))[taken], info.tokens[taken])
        changed = (state.tokens != before) & (state.tokens != model.mask_id)
        drawn = torch.zeros_like(free).scatter_(1, info.positions.clamp(min=0), asked)
        if SAMPLERS["refine random"][0] is not make:  # its start is not drawn from the model
            assert (changed & ~drawn).sum() == 0, "what changed was reported"
        sent += info.rows
        before = state.tokens
    if SAMPLERS["speculative"][0] is make:  # a model reads its guesses in one pass, rereading takes one for each
        assert sent < counted.count
    else:
        assert sent == counted.count


def test_only_free_positions_change_and_all_are_filled(case, batch):
    make, steps = case
    model, tokens, free = batch
    out = run(make(model), masked(model, tokens, free), free, generator=generator(), steps=steps).tokens
    assert torch.equal(out[~free], tokens[~free])
    assert (out[free] != model.mask_id).all()
    assert torch.isin(out[free], torch.arange(10)).sum() < free.sum(), "words, not only punctuation"
    assert (out[free] >= 5).all(), "banned tokens are never drawn"


def test_the_input_is_not_written_to(case, batch):
    make, steps = case
    model, tokens, free = batch
    start = masked(model, tokens, free)
    kept, kept_free = start.clone(), free.clone()
    run(make(model), start, free, generator=generator(), steps=steps)
    assert torch.equal(start, kept)
    assert torch.equal(free, kept_free)


def test_same_seed_same_text_and_another_seed_another(case, batch):
    make, steps = case
    model, tokens, free = batch
    start = masked(model, tokens, free)
    one, two, other = (run(make(model), start, free, generator=generator(s), steps=steps).tokens for s in (1, 1, 2))
    assert torch.equal(one, two)
    # Greedy refinement from masks has no randomness to differ by.
    assert not torch.equal(one, other) or make in (SAMPLERS["refine"][0], SAMPLERS["refine given"][0])


def test_finished_rows_cost_nothing(case, batch, counting):
    make, steps = case
    model, tokens, free = batch
    counted = counting(model)
    run(make(counted), masked(model, tokens, free), free, generator=generator(), steps=steps)
    for rows, positions in zip(counted.rows, counted.positions, strict=True):
        assert (positions >= 0).any(1).all(), "a row is sent only if it asks something"
        assert not (rows == tokens[3]).all(1).any(), "a row without a blank is never sent"


def test_a_row_does_not_notice_the_others(case, batch):
    make, steps = case
    model, tokens, free = batch
    start = masked(model, tokens, free)
    whole = run(make(model), start, free, generator=generator(), steps=steps).tokens
    for row in (0, 1):
        other, other_free = start.flip(0).roll(1, 0).clone(), free.flip(0).roll(1, 0).clone()
        other[row], other_free[row] = start[row], free[row]
        again = run(make(model), other, other_free, generator=generator(), steps=steps).tokens
        assert torch.equal(again[row], whole[row])


def test_a_row_is_the_same_alone_elsewhere_in_a_batch_and_padded_further(case, batch, tiny_lm):
    make, steps = case
    model, tokens, free = batch
    start = masked(model, tokens, free)
    whole = run(make(model), start, free, generator=Seeds(3, range(4)), steps=steps).tokens
    order = [2, 0, 1]
    wide = torch.nn.functional.pad(start[order], (0, 3), value=tiny_lm.conditionals.pad_id)
    wide_free = torch.nn.functional.pad(free[order], (0, 3))
    moved = run(make(model), wide, wide_free, generator=Seeds(3, order), steps=steps).tokens
    assert torch.equal(moved[:, :12], whole[order])
    for row in range(3):
        alone = run(make(model), start[[row]], free[[row]], generator=Seeds(3, [row]), steps=steps).tokens
        assert torch.equal(alone[0], whole[row])


def test_a_sampler_says_whether_it_ends(case, batch):
    make, steps = case
    model, tokens, free = batch
    sampler = make(model)
    assert sampler.ends == (steps is None)
    # Twice the blanks are steps enough for all that end, and no chain is ever done where something is free.
    made = list(stream(sampler, masked(model, tokens, free), free, generator=generator(), steps=24))
    assert bool(made[-1][0].done.all()) == sampler.ends


def test_micro_batches_change_nothing(case, batch, tiny_lm):
    make, steps = case
    model, tokens, free = batch
    start = masked(model, tokens, free)
    inner = tiny_lm.conditionals
    sizes = {"mask_id": inner.mask_id, "pad_id": inner.pad_id, "max_length": inner.max_length}
    small = text_only(ModelConditionals(tiny_lm.model, token_budget=12, **sizes), tiny_lm.tokenizer)
    whole = run(make(model), start, free, generator=generator(), steps=steps).tokens
    cut = run(make(small), start, free, generator=generator(), steps=steps).tokens
    assert torch.equal(whole, cut)


def test_threads_change_nothing(batch):
    model, tokens, free = batch
    threads = torch.get_num_threads()
    out = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            out.append(run(parallel(model, steps=2), tokens, free, generator=generator()).tokens)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*out)


def test_nothing_free_is_nothing_to_do(case, batch):
    make, steps = case
    model, tokens, free = batch
    out = run(make(model), tokens, torch.zeros_like(free), generator=generator(), steps=steps)
    assert torch.equal(out.tokens, tokens)
    assert len(out.trace) == out.rows == 0


@pytest.mark.parametrize("name", ["gibbs single", "metropolis", "adaptive"])
def test_a_chain_needs_a_number_of_steps(name, batch):
    model, tokens, free = batch
    with pytest.raises(AnyorderError, match="how many steps"):
        run(SAMPLERS[name][0](model), tokens, free, generator=generator())


def test_bad_shapes_are_refused(batch):
    model, tokens, free = batch
    with pytest.raises(AnyorderError, match="one shape"):
        run(any_order(model), tokens, free[:, :3], generator=generator())
    with pytest.raises(AnyorderError, match=r"torch\.bool"):
        run(any_order(model), tokens, free.long(), generator=generator())
    with pytest.raises(AnyorderError, match="negative"):
        run(any_order(model), tokens, free, generator=generator(), steps=-1)


@pytest.mark.parametrize("sweeps", [1, 2])
def test_the_skeleton_draws_from_the_joint(sweeps):
    table = random_joint(generator(3), 2, 3)
    tokens = torch.full((4000, 3), table.mask_id)
    drawn = run(sweep(table, sweeps=sweeps), tokens, tokens == table.mask_id, generator=generator()).tokens
    counts = torch.bincount(drawn @ torch.tensor([4, 2, 1]), minlength=8)
    assert stats.chisquare(counts.numpy(), 4000 * table.log_joint.exp().flatten().numpy()).pvalue > 1e-3
    with pytest.raises(AnyorderError, match="one sweep"):
        sweep(table, sweeps=0)


# Models read in order are not asked for rows, but for what they have read.
@pytest.mark.parametrize("name", [name for name in SAMPLERS if "read in order" not in name and name != "speculative"])
def test_rows_that_are_not_wanted_are_not_asked_and_the_others_do_not_notice(name, batch, counting):
    make, steps = SAMPLERS[name]
    model, tokens, free = batch
    start = masked(model, tokens, free)
    start[0, 11] = 9  # by which the row is known
    whole = run(make(model), start, free, generator=generator(), steps=steps).tokens
    counted, wanted = counting(model), torch.ones(len(tokens), dtype=torch.bool)
    sampler = make(Wanted(counted, lambda: wanted))
    now = start
    for state, _ in stream(sampler, start, free, generator=generator(), steps=steps):
        now = state.tokens
        if wanted[0]:
            wanted[0] = False
            assert any((rows[:, 11] == 9).any() for rows in counted.rows)
            counted.rows.clear(), counted.positions.clear()
    assert torch.equal(now[1:], whole[1:])
    for rows, positions in zip(counted.rows, counted.positions, strict=True):
        assert (positions[rows[:, 11] == 9] == -1).all()
