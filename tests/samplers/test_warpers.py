"""Warpers bend the draw, never what is reported of it."""

from __future__ import annotations

import pytest
import torch

from anyorder.conditionals import Table
from anyorder.errors import AnyorderError
from anyorder.samplers import any_order, run, warper

P = torch.tensor([0.45, 0.3, 0.15, 0.08, 0.02], dtype=torch.float64)


def drawn(**options):
    """Frequencies and reported log-probabilities of 8000 draws at one blank with q = P."""
    table = Table(P.log())
    tokens = torch.full((8000, 1), table.mask_id)
    sampler = any_order(table, warper=warper(**options))
    result = run(sampler, tokens, tokens == table.mask_id, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(result.log_prob, P.log()[result.tokens[:, 0]], atol=1e-9, rtol=0)
    return torch.bincount(result.tokens[:, 0], minlength=5) / 8000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, P),
        ({"temperature": 0.5}, P**2),
        ({"temperature": 2.0}, P**0.5),
        ({"top_k": 2}, P * torch.tensor([1, 1, 0, 0, 0])),
        ({"top_k": 1}, torch.tensor([1.0, 0, 0, 0, 0])),
        ({"top_p": 0.7}, P * torch.tensor([1, 1, 0, 0, 0])),
        ({"min_p": 0.3}, P * torch.tensor([1, 1, 1, 0, 0])),
        ({"temperature": 0.5, "top_k": 2}, P**2 * torch.tensor([1, 1, 0, 0, 0])),
    ],
)
def test_draws_follow_the_warped_conditional(options, expected):
    expected = expected.double() / expected.sum()
    assert ((drawn(**options) - expected).abs() <= 4 * (expected * (1 - expected) / 8000).sqrt()).all()


@pytest.mark.parametrize("temperature", [1e-9, 1e-40, 5e-324])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_least_temperatures_are_greedy(temperature, dtype):
    cold = warper(temperature=temperature)(torch.empty(1, 0), P.log().to(dtype)[None])
    assert torch.softmax(cold, -1)[0].tolist() == [1, 0, 0, 0, 0]


def test_typical_keeps_the_tokens_nearest_to_the_entropy():
    entropy = -(P * P.log()).sum()
    nearest = int((-P.log() - entropy).abs().argmin())
    frequencies = drawn(typical_p=0.2)
    assert frequencies[nearest] == 1


def test_nothing_to_warp_is_none():
    assert warper() is None
    assert warper(temperature=1.0, top_p=1.0, min_p=0.0, typical_p=1.0) is None


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"typical_p": 0.0},
    ],
)
def test_values_out_of_range_are_refused(options):
    with pytest.raises(AnyorderError, match=next(iter(options))):
        warper(**options)
