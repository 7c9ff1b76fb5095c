"""Seeds: what a row draws is a function of the seed, its name, the step, the position and the use, no more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from anyorder.samplers import Seeds


def test_a_row_draws_the_same_in_any_batch_of_any_width():
    def steps(names, length, count):
        seeds = Seeds(7, names)
        return [seeds.uniforms(len(names), length, count) for _ in range(3)]

    wide, alone = steps(["a", "b", "c"], 9, 2), steps(["b"], 5, 2)
    for one, other in zip(wide, alone, strict=True):
        assert torch.equal(one[:, 1, :5], other[:, 0])


def test_seeds_names_steps_positions_and_uses_all_differ():
    drawn = []
    for seed, name in itertools.product((0, 1, 2**70), (0, 1, "0")):
        seeds = Seeds(seed, [name])
        drawn += [seeds.uniforms(1, 6, 3).flatten() for _ in range(4)]
    values = torch.cat(drawn)
    assert len(values.unique()) == len(values)
    assert values.dtype == torch.float64


def test_they_are_uniform_and_independent_along_every_axis():
    seeds = Seeds(0, range(50))
    u = np.stack([seeds.uniforms(50, 20, 2).numpy() for _ in range(20)])  # step, use, row, position
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-3
    for axis in range(4):
        x = np.moveaxis(u, axis, 0)
        near = (
            stats.pearsonr(x[:-1].ravel(), x[1:].ravel()) if axis != 1 else stats.pearsonr(x[0].ravel(), x[1].ravel())
        )
        assert near.pvalue > 1e-3


def test_a_name_for_every_row():
    with pytest.raises(ValueError, match="one name per row"):
        Seeds(0, [1, 2]).uniforms(3, 4, 1)
