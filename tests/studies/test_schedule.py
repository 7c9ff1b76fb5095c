"""The curve of a model: exact where the losses are known, unbiased on a table, and what bundling and generating do."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from anyorder.conditionals import random_joint
from anyorder.errors import AnyorderError
from anyorder.metrics.curve import Curve
from anyorder.metrics.schedules import optimal, price
from anyorder.studies.schedule import _curve, _curves, measure_curve, points, prices


class Falling:
    """Conditionals under which every token loses 5 / (1 + visible tokens) nats."""

    def __init__(self, like):
        self.mask_id, self.pad_id, self.vocab_size = like.mask_id, like.pad_id, like.vocab_size

    def __call__(self, tokens, positions):
        raise NotImplementedError

    def of_tokens(self, tokens, positions, wanted):
        visible = (tokens != self.mask_id).sum(1, keepdim=True) - 2  # without [CLS] and [SEP]
        return (-5.0 / (1 + visible).double()).expand(wanted.shape)


def test_a_known_curve_is_found_and_priced(tiny_lm):
    lm = replace(tiny_lm, conditionals=Falling(tiny_lm.conditionals))
    texts = [list(range(10, 10 + n)) for n in (8, 12, 9, 3)]
    seen = []
    measured = measure_curve(lm, texts, length=8, progress=lambda done, total: seen.append((done, total)))
    losses = [5 / (1 + t) for t in range(8)]
    assert measured.curve == Curve(
        tuple(t / 8 for t in range(8)), pytest.approx(losses), pytest.approx([0.0] * 8), tokens=8, texts=3
    )
    assert seen == [(3, 3)]
    for row in prices(measured, [1, 3, 8]):
        assert sum(row.blocks) == 8
        assert row.price == pytest.approx(price(losses, row.blocks), abs=1e-9)
        assert row.per_token == row.price / 8
        assert row.standard_error == pytest.approx(0, abs=1e-9)
        if row.schedule == "optimal":
            assert row.blocks == optimal(losses, row.steps)


def test_on_a_table_the_curve_is_its_own_entropy():
    table = random_joint(torch.Generator().manual_seed(0), 3, 4, concentration=0.5)
    tokens = table.sample(torch.Generator().manual_seed(1), 4000)
    # A seed per part: a text's order depends on itself and the seed alone, and there are only 81 texts.
    lm = SimpleNamespace(conditionals=table)
    each = np.concatenate([_curves(lm, part, 0, 4, seed) for seed, part in enumerate(tokens.split(50))])
    curve = _curve(each, 4)
    p = table.log_joint.exp()

    def entropy(places):
        """Of the tokens at some places together."""
        others = [i for i in range(4) if i not in places]
        m = p.sum(others) if others else p
        return float(-(m * m.log()).sum())

    for t in range(4):
        gains = [
            entropy({*seen, i}) - entropy(set(seen))
            for seen in itertools.combinations(range(4), t)
            for i in range(4)
            if i not in seen
        ]
        assert curve.loss[t] == pytest.approx(np.mean(gains), abs=4 * curve.standard_error[t])
    assert all(np.diff(curve.loss) <= 0)


def test_points_reach_from_none_to_all_but_one():
    assert points(5) == [0, 1, 2, 3, 4]
    for n in (18, 64, 500):
        assert points(n)[0] == 0
        assert points(n)[-1] == n - 1
        assert len(set(points(n))) == len(points(n)) <= 17


def test_texts_that_cannot_be_used_are_refused(tiny_lm):
    with pytest.raises(AnyorderError, match="lower --length"):
        measure_curve(tiny_lm, [[10] * 5], length=8)
    with pytest.raises(AnyorderError, match="do not fit"):
        measure_curve(tiny_lm, [[10] * 900] * 3, length=800)
    with pytest.raises(AnyorderError, match="give more texts"):
        measure_curve(tiny_lm, [])
    assert measure_curve(tiny_lm, [[10] * 6, [11] * 6]).curve.tokens == 6


CURVE = Curve((0.0, 0.25, 0.5, 0.75), (6.0, 2.0, 1.9, 1.8), (0.1,) * 4, tokens=4, texts=9)


def shares(lm, **options):
    return [(info.positions[0] >= 0).sum().item() for _, info in lm.stream(**options)]


def test_generate_follows_the_curve_and_says_the_price(tiny_lm):
    lm = replace(tiny_lm, curve=CURVE)
    losses = CURVE.losses(12)
    best = optimal(losses, 4)
    assert shares(lm, length=12, steps=4) == list(best) != [3, 3, 3, 3]
    assert shares(lm, length=12, steps=4, schedule="linear") == [3, 3, 3, 3]
    (one,) = lm.generate(length=12, steps=4, order="random")
    assert one.price == one.to_dict()["price"] == pytest.approx(price(losses, best))
    (even,) = lm.generate(length=12, steps=4, order="random", schedule="linear")
    assert even.price == pytest.approx(price(losses, (3, 3, 3, 3)))
    # Given tokens are visible from the start.
    (rest,) = lm.generate("the old man ...", length=12, steps=4, order="random")
    assert rest.price == pytest.approx(price(CURVE.losses(12, 3), optimal(CURVE.losses(12, 3), 4)))


def test_prompts_that_share_a_batch_keep_their_own_schedules_and_prices(tiny_lm):
    lm = replace(tiny_lm, curve=CURVE)
    # Equally many blanks among more or fewer given words, and more blanks: three schedules.
    prompts = ["the ___{6} .", "the old man walked to the river ___{6} .", "the ___{9} ."]
    options = {"steps": 3, "order": "random", "samples": 2}
    together = lm.generate(prompts, **options)
    for prompt, found in zip(prompts, together, strict=True):
        alone = lm.generate(prompt, **options)
        assert [(one.text, one.price) for one in found] == [(one.text, one.price) for one in alone]
    assert len({found[0].price for found in together}) == 3


@pytest.mark.parametrize("options", [{}, {"order": "random", "temperature": 0.5}, {"order": "random", "epsilon": 1.0}])
def test_no_price_is_said_of_what_the_curve_does_not_describe(tiny_lm, options):
    (one,) = replace(tiny_lm, curve=CURVE).generate(length=12, steps=4, **options)
    assert one.price is None


def test_without_a_curve_there_is_no_optimum(tiny_lm):
    assert shares(tiny_lm, length=12, steps=4) == [3, 3, 3, 3]
    with pytest.raises(AnyorderError, match="evaluate schedule --data FILE"):
        tiny_lm.generate(length=12, steps=4, schedule="optimal")
