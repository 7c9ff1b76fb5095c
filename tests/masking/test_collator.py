"""Masks: their law, what they spare, and that a text's mask depends on nothing but its number."""

import numpy as np
import pytest
import torch
from scipy import stats

from anyorder.masking import Beta, Fixed, FixedCount, Masker, Uniform, UniformCount, collate, log_count

TEXT = np.array([2, *range(10, 22), 3, 0, 0])  # [CLS] 12 words [SEP] [PAD] [PAD]


def masker(prior, **options):
    return Masker(prior, mask_id=4, vocab_size=50, special_ids=frozenset({0, 1, 2, 3, 4}), **options)


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("prior", [Uniform(), UniformCount(), Fixed(0.3), Beta(2, 5), FixedCount(4)], ids=repr)
def test_counts_follow_the_prior(prior, stratified):
    draw = masker(prior, stratified=stratified)
    counts = np.bincount([draw(i, TEXT)[1].sum() for i in range(3000)], minlength=13)
    expected = log_count(prior, 12).exp().numpy() * 3000
    assert counts[expected == 0].sum() == 0
    likely = expected > 0
    # A golden-ratio sequence is more even than chance, so only the upper tail of the statistic speaks against us.
    statistic = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert statistic < stats.chi2.ppf(0.999, max(likely.sum() - 1, 1))


def test_every_position_is_masked_equally_often():
    draw = masker(Uniform())
    share = np.mean([draw(i, TEXT)[1] for i in range(4000)], axis=0)
    assert share[1:13] == pytest.approx(np.full(12, 0.5), abs=0.04)
    assert share[[0, 13, 14, 15]].sum() == 0  # special tokens and padding never


def test_stratified_batches_vary_less():
    def spread(stratified):
        draw = masker(UniformCount(), stratified=stratified)
        return np.std([np.mean([draw(b * 16 + i, TEXT)[1].sum() for i in range(16)]) for b in range(60)])

    assert spread(True) < spread(False) / 2


def test_corruption():
    always = masker(UniformCount())
    bert = masker(Fixed(0.5), corruption="80-10-10", stratified=False)
    fates = np.zeros(3)
    for i in range(2000):
        inputs, masked = always(i, TEXT)
        assert (inputs[masked] == 4).all()
        assert (inputs[~masked] == TEXT[~masked]).all()
        inputs, masked = bert(i, TEXT)
        assert (inputs[~masked] == TEXT[~masked]).all()
        assert not np.isin(inputs[masked], [0, 1, 2, 3]).any()
        hidden, kept = inputs[masked] == 4, inputs[masked] == TEXT[masked]
        fates += [hidden.sum(), kept.sum(), (~hidden & ~kept).sum()]
    # a random replacement hits the original once in 45 ordinary tokens
    expected = np.array([0.8, 0.1 + 0.1 / 45, 0.1 - 0.1 / 45])
    assert fates / fates.sum() == pytest.approx(expected, abs=0.012)


def test_a_mask_depends_on_seed_and_number_alone():
    texts = [TEXT, TEXT[:9], TEXT]
    draw = masker(Uniform(), seed=5)
    together = collate(texts, [7, 8, 9], draw, pad_id=0)
    for row, (i, text) in enumerate(zip([7, 8, 9], texts, strict=True)):
        alone = collate([text], [i], draw, pad_id=0)
        for name in ("input_ids", "tokens", "masked"):
            assert torch.equal(together[name][row, : len(text)], alone[name][0])
    other = collate(texts, [7, 8, 9], masker(Uniform(), seed=6), pad_id=0)
    assert not torch.equal(together["masked"], other["masked"])


def test_nothing_to_mask():
    inputs, masked = masker(Uniform())(0, np.array([2, 3]))
    assert not masked.any()
    assert inputs.tolist() == [2, 3]
