"""The certificate itself: exact pieces checked by hand, the claims of every sampler, and that a false one is caught."""

from __future__ import annotations

import pytest
import torch

from anyorder.conditionals import Table, random_joint
from anyorder.samplers import adaptive, gibbs, parallel
from anyorder.studies.certify import FLOOR, SAMPLERS, WORLDS, Bench, certify
from anyorder.studies.exact import Lookup, empirical_tv, floor, mrf_joint, total_variation, worlds


def _g(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def verdicts():
    return list(certify(draws=300, repeats=3, seed=0))


def test_lookup_answers_as_the_table_does():
    table = random_joint(_g(), 3, 4)
    tokens = torch.randint(0, 4, (200, 4), generator=_g(1))
    positions = torch.randint(-1, 4, (200, 3), generator=_g(2))
    torch.testing.assert_close(Lookup(table)(tokens, positions), table(tokens, positions))


def test_total_variation_by_hand():
    p, q = (Table(torch.tensor(x, dtype=torch.float64).log()) for x in ([0.5, 0.3, 0.2], [0.1, 0.3, 0.6]))
    assert total_variation(p, q) == pytest.approx(0.4)
    texts = torch.tensor([0] * 5 + [1] * 3 + [2] * 2 + [0] * 10)[:, None]
    estimate = empirical_tv(p, texts, 2)
    assert estimate.value == pytest.approx((0 + 0.5) / 2)
    assert estimate.standard_error == pytest.approx(0.25)


def test_the_floor_falls_with_the_root_of_the_draws():
    table = worlds()[1].table
    assert floor(table, 400, _g()).value / floor(table, 1600, _g()).value == pytest.approx(2, rel=0.05)
    p = table.log_joint.exp().flatten()
    # Each cell is nearly normal: E|x - p| = sqrt(2 p (1-p) / (π n)).
    assert floor(table, 1600, _g()).value == pytest.approx(
        float((2 * p * (1 - p) / (torch.pi * 1600)).sqrt().sum() / 2), rel=0.02
    )


def single_site(table, accept):
    """[S, S] the kernel that redraws a uniform position from its conditional, taken with probability accept[x, y]."""
    p, states = table.log_joint.exp().flatten(), table.states
    differ = (states[:, None] != states[None]).sum(-1)
    position = (states[:, None] != states[None]).long().argmax(-1)  # where two states differ
    matrix = torch.zeros(len(p), len(p), dtype=torch.float64)
    for t in range(table.length):
        same = ((states[:, None] == states[None]) | (torch.arange(table.length) == t)).all(-1)
        matrix += same * (p[None] / (same * p[None]).sum(1, keepdim=True)) / table.length
    matrix = torch.where((differ == 1) & (position >= 0), matrix * accept, 0.0)
    return matrix + torch.diag(1 - matrix.sum(1))


@pytest.mark.parametrize("world", worlds(), ids=lambda w: w.name)
def test_chains_run_long_enough_to_forget_where_they_started(world):
    """Exactly, by powers of the transition matrix from the common start: what is left is far below any floor."""
    table, target = world.table, mrf_joint(world.table)
    p, m = table.log_joint.flatten(), target.log_joint.flatten()
    gibbs_kernel = single_site(table, torch.ones(len(p), len(p), dtype=torch.float64))
    # log q(x_i | x_-i) - log q(y_i | x_-i) is log p(x) - log p(y), as x and y share x_-i.
    accept = (m[None] - m[:, None] + p[:, None] - p[None]).exp().clamp(max=1)
    for matrix, steps, law in (
        (gibbs_kernel, world.gibbs_steps, p.exp()),
        (single_site(table, accept), world.metropolis_steps, m.exp()),
    ):
        torch.testing.assert_close(law @ matrix, law, atol=1e-10, rtol=0)
        after = torch.linalg.matrix_power(matrix, steps)[0]
        assert float((after - law).abs().sum() / 2) < 0.002
        assert float(1 - law[0]) > 0.5, "the start is away from the truth"


def test_every_sampler_is_certified_in_every_world(verdicts):
    assert {v.world for v in verdicts} == {w.name for w in worlds()}
    assert len(worlds()) == WORLDS
    assert {v.sampler.split(",")[0] for v in verdicts} == set(SAMPLERS)
    bad = [(v.world, v.sampler, round(v.excess, 2), v.against) for v in verdicts if not v.ok]
    assert not bad


def test_the_exact_ones_claim_the_floor(verdicts):
    claimed = {v.sampler for v in verdicts if v.claim == FLOOR}
    for name in ("any-order, random", "gibbs, single site", "gibbs, blocks of 2 in sequence", "metropolis"):
        assert name in claimed
        assert all(v.claim == FLOOR and v.excess <= 3 for v in verdicts if v.sampler == name)


def test_metropolis_aims_at_the_mrf_joint_and_says_how_far_that_is(verdicts):
    rows = {v.world: v for v in verdicts if v.sampler == "metropolis"}
    for world in worlds():
        row = rows[world.name]
        assert row.target == "MRF joint"
        assert row.target_tv == pytest.approx(total_variation(mrf_joint(world.table), world.table))
        assert row.target_tv > 0.1


def test_parallel_shows_its_bias_and_loses_it_with_the_steps(verdicts):
    for world in worlds():
        for commit in ("random", "confidence"):
            rows = [v for v in verdicts if v.world == world.name and v.sampler.startswith(f"parallel, {commit}")]
            assert len(rows) == world.table.length
            assert rows[0].excess > 10
            assert rows[-1].excess <= 3
            assert rows[-1].claim == FLOOR


def test_adaptive_blocks_beat_uniform_ones_of_equal_cost(verdicts):
    rows = {v.world: v for v in verdicts if v.sampler == "adaptive"}
    chain, clique = rows["Ising chain, strong"], rows["Ising clique"]
    for row in (chain, clique):
        assert row.claim.startswith("beats")
        assert row.tv + 3 * row.tv_error < row.against["uniform blocks in parallel"]
    assert chain.tv + 3 * chain.tv_error < chain.against["uniform blocks in sequence"]
    # All pairs of a clique depend alike, so there is nothing to choose by: level with blocks in sequence.
    assert clique.tv < clique.against["uniform blocks in sequence"] + 3 * clique.tv_error


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: (parallel(c, steps=3), None),
        lambda c: (gibbs(c, block=3), 120),
        lambda c: (gibbs(c), 40),  # right, but stopped too early
        lambda c: (adaptive(c, block=1, threshold=1.0), 60),  # everything side by side
    ],
)
def test_a_false_claim_is_caught(wrong):
    world = next(w for w in worlds() if w.name == "Ising chain, strong")
    bench = Bench(world, 1000, 10, _g())
    assert not bench.verdict("wrong", *wrong(bench.model)).ok


def test_the_same_seed_gives_the_same_certificate():
    one, two = (list(certify(("any-order",), draws=50, repeats=2, seed=3)) for _ in range(2))
    assert one == two
