"""The measures of `anyorder diagnose` on tables, where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from anyorder.chains.parallel import block_loss, entropy_profile
from anyorder.chains.transition import joint
from anyorder.chains.worlds import make_world
from anyorder.studies.dependence import choose_pairs, measure_pairs, safe_block
from anyorder.studies.text_chains import ChainReport, r_hat_chance, text_chain


def mutual_information(p: np.ndarray) -> float:
    product = np.outer(p.sum(1), p.sum(0))
    return float((p * np.log(p / product)).sum())


def test_information_is_the_mutual_information() -> None:
    table = make_world("random", n=2, coupling=1.0, vocab=4).table
    pairs = [(0, 1, False)] * 2000
    nats, influence = measure_pairs(table, table.states[3], pairs, torch.Generator().manual_seed(0))
    error = float(nats.std()) / math.sqrt(len(nats))
    assert float(nats.mean()) == pytest.approx(mutual_information(joint(table)), abs=4 * error)
    p = joint(table)
    shifts = [np.abs(p[a] / p[a].sum() - p.sum(0)).sum() / 2 for a in range(4) if a != p.sum(1).argmax()]
    shifts += [np.abs(p[:, a] / p[:, a].sum() - p.sum(1)).sum() / 2 for a in range(4) if a != p.sum(0).argmax()]
    assert all(min(abs(float(v) - s) for s in shifts) < 1e-6 for v in influence.unique())


def test_information_sees_the_rest_of_the_text() -> None:
    """On a chain x_0 and x_2 tell nothing about each other once x_1 is known; neighbours do."""
    table = make_world("ising-chain", n=4, coupling=0.8).table
    pairs = [(0, 2, False), (0, 1, True)] * 200
    nats, influence = measure_pairs(table, table.states[5], pairs, torch.Generator().manual_seed(0))
    assert float(nats[0::2].abs().max()) < 1e-12
    assert float(influence[0::2].max()) < 1e-7
    assert float(nats[1::2].mean()) > 0.05


def test_safe_blocks_follow_the_exact_loss_where_dependence_is_weak() -> None:
    profile = entropy_profile(make_world("ising-clique", n=6, coupling=0.05).table)
    pair = block_loss(profile, 2)
    for k in (3, 4, 5):
        assert k * (k - 1) / 2 * pair == pytest.approx(block_loss(profile, k), rel=0.2)
        assert safe_block(pair, 6, k * (k - 1) / 2 * pair * 1.001) == k
    assert safe_block(0.0, 7, 0.1) == 7
    assert safe_block(9.0, 7, 0.1) == 1
    assert safe_block(-1e-9, 7, 0.1) == 7


def test_pairs_are_free_distinct_and_neighbours_stand_side_by_side() -> None:
    free = torch.tensor([False, True, True, False, True, True, True])
    pairs = choose_pairs(free, 100, 100, torch.Generator().manual_seed(0))
    random = [(i, j) for i, j, beside in pairs if not beside]
    assert sorted(random) == [(1, 2), (1, 4), (1, 5), (1, 6), (2, 4), (2, 5), (2, 6), (4, 5), (4, 6), (5, 6)]
    assert sorted((i, j) for i, j, beside in pairs if beside) == [(1, 2), (4, 5), (5, 6)]


def run(world: str, coupling: float, **options: int) -> ChainReport:
    table = make_world(world, n=6, coupling=coupling).table
    start, free = torch.ones(6, dtype=torch.long), torch.ones(6, dtype=torch.bool)
    settings = {"block": 1, "chains": 8, "sweeps": 60, "seed": 0} | options
    *waiting, report = text_chain(table, 0, start, free, **settings)
    assert waiting == [None] * settings["sweeps"]
    assert report is not None
    return report


def test_independent_positions_are_forgotten_at_once() -> None:
    found = run("ising-chain", 0.0)
    assert found.overlap[0] == 1.0
    assert found.escape in (1, 2)
    assert found.baseline == pytest.approx(0.5, abs=0.1)
    assert len(found.overlap) == 61


def test_a_stuck_chain_is_seen_to_be_stuck() -> None:
    """The strong clique: chains that begin at all ups stay there, and chains from masks fall to either side."""
    found = run("ising-clique", 1.0)
    assert found.escape is None or found.escape > 20
    assert min(found.overlap) > 0.6
    assert found.baseline < 0.9


def test_agreeing_chains_have_r_hat_one_and_many_draws() -> None:
    from arviz_stats.base import array_stats

    found = run("random", 0.5, block=2)
    late = np.array(found.energy)[:, 30:]
    assert found.r_hat == pytest.approx(float(array_stats.rhat(late, chain_axis=0, draw_axis=1)))
    assert found.r_hat < 1.1
    assert found.draws == late.size
    assert found.effective > 0.3 * found.draws
    assert found.autocorrelation[0] == pytest.approx(1.0)


def test_chains_that_never_move_have_no_r_hat() -> None:
    found = run("ising-clique", 12.0, sweeps=20)
    assert math.isnan(found.r_hat)
    assert found.to_dict()["r_hat"] is None
    assert found.to_dict()["autocorrelation"][0] is None


@pytest.mark.parametrize(("chains", "draws"), [(2, 8), (4, 10), (4, 50)])
def test_independent_draws_exceed_the_chance_r_hat_one_time_in_twenty(chains: int, draws: int) -> None:
    from arviz_stats.base import array_stats

    runs = np.random.default_rng(0).normal(size=(500, chains, draws))
    over = [float(array_stats.rhat(run, chain_axis=0, draw_axis=1)) > r_hat_chance(chains, draws) for run in runs]
    assert 0.01 <= np.mean(over) <= 0.09


def test_few_draws_claim_little() -> None:
    """From four sweeps nothing is said; from ten, no more effective draws than draws, and no agreement by chance."""
    short = run("random", 0.5, chains=4, sweeps=8)
    assert (short.to_dict()["effective"], short.to_dict()["r_hat"]) == (None, None)
    assert "too briefly" in short.verdict
    for seed in range(4):
        found = run("random", 0.5, chains=4, sweeps=20, seed=seed)
        assert 0 < found.effective <= found.draws == 40
        assert "chains agree" not in found.verdict
    assert "chains agree" in run("random", 0.5, block=2, chains=8, sweeps=120).verdict
