"""The matrices against a direct reading of each algorithm: every block, every state, every draw, one at a time."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from scipy import sparse

from anyorder.chains.efficiency import count_law
from anyorder.chains.kernels import adaptive_matrix, make_kernel, metropolis_matrix, mrf_law
from anyorder.chains.transition import gibbs_matrix, law, masked_matrix
from anyorder.chains.worlds import World, make_world
from anyorder.conditionals.table import Table
from anyorder.errors import AnyorderError
from chains.small_worlds import exact, worlds


def dense(matrix: object) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def draw_probability(
    table: Table, before: list[int], after: list[int], order: tuple[int, ...], parallel: bool
) -> float:
    """The probability to get ``after`` by masking ``order`` and asking the table itself, position by position."""
    tokens = torch.tensor([before])
    tokens[0, list(order)] = table.mask_id
    p = 1.0
    for t in order:
        p *= float(table(tokens, torch.tensor([[t]]))[0, 0, after[t]].exp())
        if not parallel:
            tokens[0, t] = after[t]
    return p


def slow_gibbs(table: Table, block: int, parallel: bool) -> np.ndarray:
    states = table.states.tolist()
    blocks = list(permutations(range(table.length), block))  # every order inside the block, as the sampler draws it
    p = np.zeros((len(states), len(states)))
    for i, x in enumerate(states):
        for j, y in enumerate(states):
            for s in blocks:
                if all(x[t] == y[t] for t in range(table.length) if t not in s):
                    p[i, j] += draw_probability(table, x, y, s, parallel) / len(blocks)
    return p


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(("name", "vocab", "n"), [("random", 2, 3), ("hmm", 3, 2), ("ising-clique", 2, 3)])
def test_gibbs_matrix(name: str, vocab: int, n: int, parallel: bool) -> None:
    table = make_world(name, n=n, vocab=vocab, coupling=0.9).table
    for block in range(1, n + 1):
        np.testing.assert_allclose(
            dense(gibbs_matrix(table, block, parallel)), slow_gibbs(table, block, parallel), atol=1e-13
        )


def test_impossible_states_are_answered_as_the_table_answers_them() -> None:
    table = Table(torch.tensor([[[0.5, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.5]]]).log())
    for block in (1, 2):
        for parallel in (False, True):
            expected = slow_gibbs(table, block, parallel)
            np.testing.assert_allclose(dense(gibbs_matrix(table, block, parallel)), expected, atol=1e-13)


def test_sparse_and_dense_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_world("random", n=2, vocab=3).table
    for share in (0.0, 1.1):
        monkeypatch.setattr("anyorder.chains.transition._SPARSE_BELOW", share)
        found = gibbs_matrix(table, 1)
        assert sparse.issparse(found) == (share > 1)
        np.testing.assert_allclose(dense(found), slow_gibbs(table, 1, False), atol=1e-13)
    monkeypatch.undo()
    assert sparse.issparse(gibbs_matrix(make_world("random", n=9).table, 1))


@given(worlds())
@exact
def test_exact_kernels_keep_the_truth(world: World) -> None:
    for block in range(1, world.table.length + 1):
        for name in ("gibbs", "metropolis"):
            kernel = make_kernel(world.table, name, block)
            np.testing.assert_allclose(np.asarray(kernel.matrix.sum(1)).ravel(), 1.0, atol=1e-12)
            np.testing.assert_allclose(kernel.target @ dense(kernel.matrix), kernel.target, atol=1e-12)


def test_one_adaptive_block_keeps_the_truth() -> None:
    table = make_world("random", n=4, coupling=1.0, seed=3).table
    for block in (1, 2, 3):
        np.testing.assert_allclose(law(table) @ dense(adaptive_matrix(table, block, blocks=1)), law(table), atol=1e-12)


def test_metropolis_matrix_from_its_definition() -> None:
    table = make_world("random", n=3, vocab=2, coupling=1.2).table
    states = table.states.tolist()
    q = np.zeros((8, 3))
    for i, x in enumerate(states):
        for t in range(3):
            q[i, t] = draw_probability(table, x, x, (t,), True)
    energy = -np.log(q).sum(1)
    p = np.zeros((8, 8))
    for i, x in enumerate(states):
        for t in range(3):
            y = [*x]
            y[t] = 1 - x[t]
            j = states.index(y)
            alpha = min(1.0, np.exp(energy[i] - energy[j]) * q[i, t] / q[j, t])
            p[i, j] += q[j, t] * alpha / 3
        p[i, i] = 1 - p[i].sum()
    np.testing.assert_allclose(dense(metropolis_matrix(table)), p, atol=1e-13)
    target = np.exp(-energy)
    np.testing.assert_allclose(mrf_law(table), target / target.sum(), atol=1e-13)


def test_a_prior_mixes_the_sizes() -> None:
    table = make_world("hmm", n=3).table
    counts = np.array([0.1, 0.2, 0.3, 0.4])
    parts = [np.eye(8), *(dense(gibbs_matrix(table, k)) for k in (1, 2, 3))]
    expected = sum(c * p for c, p in zip(counts, parts, strict=True))
    np.testing.assert_allclose(dense(masked_matrix(table, counts)), expected, atol=1e-13)
    np.testing.assert_allclose(dense(masked_matrix(table, count_law(2, 3))), parts[2], atol=1e-13)


def test_adaptive_without_a_bar_draws_uniform_blocks() -> None:
    """With sharpness 0 and no threshold, one block is a uniform set: the exact k-block kernel, up to its draws."""
    table = make_world("random", n=4, coupling=1.5).table
    found = dense(adaptive_matrix(table, 2, blocks=1, threshold=0.0, sharpness=0.0))
    np.testing.assert_allclose(found, dense(gibbs_matrix(table, 2)), atol=0.02)


def test_adaptive_blocks_follow_the_tie() -> None:
    """Two independent pairs: blocks of two are the pairs, side by side, so one step draws from the truth."""
    pair = make_world("random", n=2, coupling=2.0).table.log_joint
    table = Table(pair[:, :, None, None] + pair[None, None])
    found = dense(adaptive_matrix(table, 2))
    np.testing.assert_allclose(found, np.tile(law(table), (16, 1)), atol=1e-10)


def test_a_block_larger_than_the_world() -> None:
    with pytest.raises(AnyorderError, match="sizes from 1 to 3"):
        gibbs_matrix(make_world("random", n=3).table, 4)
    with pytest.raises(AnyorderError, match="unknown kernel"):
        make_kernel(make_world("random", n=3).table, "gibs", 1)
