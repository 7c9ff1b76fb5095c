"""The kernels of the project's Markov-chain samplers, each with its matrix and the law it is meant to keep.

``gibbs`` is :func:`anyorder.samplers.gibbs` in sequence, ``parallel`` the same with a product block, ``adaptive``
:func:`anyorder.samplers.adaptive` and ``metropolis`` :func:`anyorder.samplers.metropolis`. A test runs each real
sampler's step from every state and compares the frequencies with these matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy import sparse, special
from torch import Tensor

from anyorder.chains.transition import (
    Array,
    Matrix,
    assemble,
    block_law,
    block_states,
    conditional,
    gibbs_matrix,
    joint,
    law,
)
from anyorder.conditionals.table import Table
from anyorder.errors import choose
from anyorder.samplers.adaptive import grow, mutual_influence

KERNELS = ("gibbs", "parallel", "adaptive", "metropolis")
# Seeded draws of the adaptive sampler's own choice of blocks; the rest of its matrix is exact.
_BLOCK_DRAWS = 2**15


@dataclass(frozen=True)
class Kernel:
    """A named transition matrix and the law its sampler is built to keep."""

    name: str
    block: int
    matrix: Matrix
    target: Array
    symmetric: bool  # treats all positions alike, so it inherits the world's symmetries


def make_kernel(table: Table, name: str, block: int, seed: int = 0) -> Kernel:
    """The kernel ``name`` at block size ``block``; Metropolis moves one position whatever it is."""
    truth = law(table)
    match choose(name, KERNELS, "kernel"):
        case "gibbs":
            return Kernel(name, block, gibbs_matrix(table, block), truth, True)
        case "parallel":
            return Kernel(name, block, gibbs_matrix(table, block, parallel=True), truth, True)
        case "adaptive":
            return Kernel(name, block, adaptive_matrix(table, block, seed=seed), truth, False)
        case _:
            return Kernel(name, 1, metropolis_matrix(table), mrf_law(table), True)


def single_conditionals(table: Table) -> Array:
    """[N, V^N] p(x_t | x_-t) of every state, by position."""
    found = np.empty((table.length, table.states.shape[0]))
    for t in range(table.length):
        found[t, block_states(table.vocab_size, table.length, (t,))] = block_law(table, (t,))
    return found


def mrf_law(table: Table) -> Array:
    """[V^N] ∝ ∏_t p(x_t | x_-t): the MRF joint Metropolis targets (eq 2 of Torroba Hennigen & Kim 2023)."""
    with np.errstate(divide="ignore"):
        return np.asarray(special.softmax(np.log(single_conditionals(table)).sum(0)))


def metropolis_matrix(table: Table) -> Matrix:
    """Propose x'_t ~ p(· | x_-t) at a uniform t, accept with min(1, e^{E(x) - E(x')} p(x_t | x_-t) / p(x'_t | x_-t)).

    A state of infinite energy is left at the first chance, as the sampler does it.
    """
    v, n = table.vocab_size, table.length
    m = v**n
    q = single_conditionals(table)
    with np.errstate(divide="ignore"):
        log_q = np.log(q)
    minus_energy = log_q.sum(0)
    rows, columns, values = [], [], []
    for t in range(n):
        index = block_states(v, n, (t,))  # [V^(n-1), V]
        for shift in range(1, v):
            x, y = index.ravel(), np.roll(index, -shift, axis=1).ravel()
            with np.errstate(invalid="ignore"):
                log_alpha = minus_energy[y] - minus_energy[x] + log_q[t, x] - log_q[t, y]
            log_alpha = np.where(np.isneginf(minus_energy[x]), 0.0, log_alpha)
            accept = np.where(q[t, y] > 0, np.exp(np.minimum(log_alpha, 0.0)), 0.0)
            rows.append(x)
            columns.append(y)
            values.append(q[t, y] * accept / n)
    moved = sparse.csr_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(m, m))
    stay = 1.0 - np.asarray(moved.sum(1)).ravel()
    matrix = sparse.csr_matrix(moved + sparse.diags(np.maximum(stay, 0.0)))
    matrix.eliminate_zeros()
    return matrix


def measured_tie(table: Table, seed: int = 0) -> Tensor:
    """[N, N] the dependence the adaptive sampler measures on its first step, every position free."""
    free = torch.ones(1, table.length, dtype=torch.bool)
    u = torch.rand(1, table.length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found, _ = mutual_influence(table, torch.full((1, table.length), table.mask_id), free, u)
    return torch.maximum(found, found.transpose(1, 2))[0]


def adaptive_matrix(
    table: Table,
    block: int,
    blocks: int = 4,
    threshold: float = 0.05,
    sharpness: float = 8.0,
    tie: Tensor | None = None,
    seed: int = 0,
    draws: int = _BLOCK_DRAWS,
) -> Matrix:
    """The adaptive sampler's step, given the dependence ``tie`` it measured (and keeps) on its first.

    The law of its blocks is read off seeded draws of its own :func:`~anyorder.samplers.adaptive.grow`; the draws
    inside are exact: the r-th members of all blocks at once, given what stands outside and the members before.
    """
    n = table.length
    tie = measured_tie(table, seed) if tie is None else tie
    generator = torch.Generator().manual_seed(seed)
    keys, join = torch.rand(2, draws, n, generator=generator, dtype=torch.float64)
    ties = tie[None].expand(draws, -1, -1)
    members = grow(ties, torch.ones_like(keys, dtype=torch.bool), keys, join, block, blocks, threshold, sharpness)
    # What counts is who is drawn together, not the order of blocks: each column sorted, then rows as bytes.
    columns_of = np.ascontiguousarray(members.transpose(1, 2).sort(-1).values.flatten(1).to(torch.int8).numpy())
    as_bytes = columns_of.view(f"V{columns_of.shape[1]}").ravel()
    _, first, count = np.unique(as_bytes, return_index=True, return_counts=True)
    p = joint(table)

    @cache
    def by_state(i: int, unknown: tuple[int, ...]) -> Array:
        """p(x_i | all but ``unknown``), i among them, [V^N]."""
        return np.broadcast_to(conditional(p, i, tuple(d for d in unknown if d != i)), p.shape).reshape(-1)

    weights: dict[tuple[int, ...], Array] = {}
    for row, times in zip(columns_of[first].reshape(-1, block, blocks).tolist(), count.tolist(), strict=True):
        columns = [tuple(i for i in column if i >= 0) for column in row]
        unknown = tuple(sorted(i for column in columns for i in column))
        drawn = np.full(p.size, times / draws)
        for column in columns:
            for i in column:
                drawn = drawn * by_state(i, unknown)
            unknown = tuple(i for i in unknown if i not in column)
        masked = tuple(sorted(i for column in columns for i in column))
        weights[masked] = weights.get(masked, 0.0) + drawn
    return assemble(table, max(map(len, weights)), weights)
