"""Theorem-free but essential: the real samplers' steps, from every state, have the frequencies of the matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse, stats

from anyorder import samplers
from anyorder.chains.kernels import adaptive_matrix, measured_tie, metropolis_matrix
from anyorder.chains.parallel import decoding_law, even_schedule
from anyorder.chains.transition import gibbs_matrix
from anyorder.chains.worlds import make_world
from anyorder.conditionals.table import Table
from anyorder.samplers.adaptive import AdaptiveState
from anyorder.types import Sampler

REPEATS = 1500


def frequencies(table: Table, sampler: Sampler, seed: int, tie: torch.Tensor | None = None) -> np.ndarray:
    """[M, M] how often one step from state x ends in y, ``REPEATS`` times each x."""
    m, n = table.states.shape
    tokens = table.states.repeat_interleave(REPEATS, 0)
    state = sampler.init(tokens, torch.ones_like(tokens, dtype=torch.bool))
    if tie is not None:
        state = AdaptiveState(state.tokens, state.free, tie[None].expand(len(tokens), -1, -1))
    state, _ = sampler.step(torch.Generator().manual_seed(seed), state)
    place = table.vocab_size ** torch.arange(n - 1, -1, -1)
    ends = (state.tokens * place).sum(1).view(m, REPEATS).numpy()
    return np.stack([np.bincount(row, minlength=m) for row in ends])


def check(counts: np.ndarray, matrix: object) -> None:
    """A chi-squared test over all rows together; cells too rare for it are pooled within their row."""
    expected = REPEATS * (matrix.toarray() if sparse.issparse(matrix) else matrix)
    assert (counts[expected < 1e-12] == 0).all()
    statistic, freedom = 0.0, 0
    for seen, wanted in zip(counts, expected, strict=True):
        common = wanted >= 5
        o = np.append(seen[common], seen[~common].sum())
        e = np.append(wanted[common], wanted[~common].sum())
        some = e > 1e-9
        statistic += float(((o[some] - e[some]) ** 2 / e[some]).sum())
        freedom += int(some.sum()) - 1
    assert freedom > 0
    assert stats.chi2.sf(statistic, freedom) > 1e-3


WORLDS = {
    "random": make_world("random", n=3, coupling=1.0, seed=4),
    "three words": make_world("random", n=3, coupling=0.8, seed=5, vocab=3),
    "clique": make_world("ising-clique", n=4, coupling=0.3),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("block", "mode"), [(1, "parallel"), (2, "parallel"), (2, "sequential"), (3, "sequential")])
def test_gibbs(world: str, block: int, mode: str) -> None:
    table = WORLDS[world].table
    counts = frequencies(table, samplers.gibbs(table, block=block, mode=mode), seed=block)
    check(counts, gibbs_matrix(table, block, parallel=mode == "parallel"))


@pytest.mark.parametrize("world", WORLDS)
def test_metropolis(world: str) -> None:
    table = WORLDS[world].table
    check(frequencies(table, samplers.metropolis(table), seed=1), metropolis_matrix(table))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("block", "blocks", "threshold"), [(1, 4, 0.2), (2, 1, 0.05), (2, 2, 0.15), (3, 2, 0.1)])
def test_adaptive(world: str, block: int, blocks: int, threshold: float) -> None:
    table = WORLDS[world].table
    tie = measured_tie(table, seed=3)
    sampler = samplers.adaptive(table, block=block, blocks=blocks, threshold=threshold)
    counts = frequencies(table, sampler, seed=2, tie=tie)
    check(counts, adaptive_matrix(table, block, blocks, threshold, tie=tie, seed=7, draws=2**17))


def test_the_adaptive_tie_is_the_one_the_sampler_measures() -> None:
    table = WORLDS["clique"].table  # of two words one is the surprise: nothing is left to chance
    sampler = samplers.adaptive(table, block=2)
    state = sampler.init(table.states[:1], torch.ones(1, 4, dtype=torch.bool))
    state, _ = sampler.step(torch.Generator().manual_seed(0), state)
    torch.testing.assert_close(state.tie[0], measured_tie(table, seed=9))


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_parallel_decoding(steps: int) -> None:
    table = WORLDS["clique"].table
    n, draws = 4, 20_000
    sampler = samplers.parallel(table, steps=steps, commit="random")
    tokens = torch.full((draws, n), table.mask_id)
    generator = torch.Generator().manual_seed(steps)
    ends = samplers.run(sampler, tokens, torch.ones_like(tokens, dtype=torch.bool), generator=generator).tokens
    counts = np.bincount((ends * torch.tensor([8, 4, 2, 1])).sum(1).numpy(), minlength=16)
    expected = draws * decoding_law(table, even_schedule(n, steps))
    assert stats.chisquare(counts, expected).pvalue > 1e-3
