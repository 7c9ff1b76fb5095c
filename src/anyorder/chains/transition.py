"""Exact transition matrices of the samplers' kernels on a table (Li et al. 2024, k-Gibbs).

States are numbered as ``Table.states``: row x of a matrix is the law of the next state. A conditional on an event of
probability zero is uniform, as :class:`anyorder.conditionals.Table` answers it, so a matrix also covers the states a
biased sampler strays to.
"""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anyorder.chains.worlds import check_memory
from anyorder.conditionals.table import Table
from anyorder.errors import AnyorderError

Array = NDArray[np.float64]
Matrix = Any  # an Array or a scipy.sparse.csr_matrix; scipy has no types

# A matrix with fewer nonzeros than this share is kept sparse.
_SPARSE_BELOW = 0.1


def joint(table: Table) -> Array:
    """The table's probabilities, [V]*N."""
    p: Array = table.log_joint.exp().numpy()
    return p


def dense(matrix: Matrix) -> Array:
    """``matrix`` as an array."""
    found: Array = matrix.toarray() if sparse.issparse(matrix) else matrix
    return found


def law(table: Table) -> Array:
    """The table's probabilities by state number, [V^N]."""
    return joint(table).reshape(-1)


def block_states(vocab: int, length: int, block: tuple[int, ...]) -> NDArray[np.int64]:
    """[V^(N-k), V^k] state numbers: a row fixes x_-S, a column x_S, both counted in the order of the positions."""
    rest = [d for d in range(length) if d not in block]
    index = np.arange(vocab**length).reshape([vocab] * length)
    return index.transpose(*rest, *block).reshape(vocab ** len(rest), vocab ** len(block))


def block_law(table: Table, block: tuple[int, ...]) -> Array:
    """[V^(N-k), V^k] the exact conditionals p(x_S | x_-S), what any-order draws inside the block give."""
    p = law(table)[block_states(table.vocab_size, table.length, block)]
    total = p.sum(-1, keepdims=True)
    return np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[-1]), where=total > 0)


def conditional(p: Array, t: int, unknown: tuple[int, ...]) -> Array:
    """p(x_t | all but x_t and ``unknown``) of a joint [V]*N, of whatever scale; the unknown axes have length one."""
    both = p.sum(axis=unknown, keepdims=True)
    given = both.sum(axis=t, keepdims=True)
    return np.divide(both, given, out=np.full_like(both, 1.0 / p.shape[t]), where=given > 0)


def product_law(conditional: Array, vocab: int) -> Array:
    """[G, V^k] laws on a block -> the product of their one-position marginals: one parallel step of a transformer."""
    k = round(np.log(conditional.shape[-1]) / np.log(vocab))
    tensor = conditional.reshape(-1, *[vocab] * k)
    product = np.ones((len(conditional), 1))
    for t in range(k):
        marginal = tensor.sum(axis=tuple(d + 1 for d in range(k) if d != t))  # [G, V]
        product = (product[:, :, None] * marginal[:, None, :]).reshape(len(conditional), -1)
    return product


def gibbs_matrix(table: Table, block: int, parallel: bool = False) -> Matrix:
    """k-block Gibbs: S uniform among the sets of size ``block``, then x_S redrawn given x_-S.

    Args:
        table: the world.
        block: k.
        parallel: False draws x_S from p(x_S | x_-S) (in sequence inside the block); True draws its positions
            independently from ∏_t p(x_t | x_-S).
    """
    n = table.length
    if not 1 <= block <= n:
        raise AnyorderError(f"a block of {block} in a world of {n} positions: use sizes from 1 to {n}")
    return masked_matrix(table, np.eye(n + 1)[block], parallel)


def masked_matrix(table: Table, counts: Array, parallel: bool = False) -> Matrix:
    """Gibbs whose mask has a size drawn from ``counts`` [N+1] and is then uniform: the chain of a masking prior."""
    n = table.length
    weights = {}
    for k in np.flatnonzero(counts):
        for s in combinations(range(n), int(k)):
            weights[s] = counts[k] / comb(n, int(k)) * redraw(table, s, parallel)
    return assemble(table, int(np.flatnonzero(counts)[-1]), weights)


def redraw(table: Table, block: tuple[int, ...], parallel: bool) -> Array:
    """[V^N] the probability that y_S is drawn given y_-S, by y: a product over the block if ``parallel``."""
    p = block_law(table, block)
    drawn = np.empty(p.size)
    drawn[block_states(table.vocab_size, table.length, block)] = product_law(p, table.vocab_size) if parallel else p
    return drawn


def assemble(table: Table, block: int, weights: dict[tuple[int, ...], Array]) -> Matrix:
    """The matrix P(x, y) = Σ_{S ⊇ D(x,y)} w_S(y), D the positions where x and y differ.

    A redrawn block leaves y_-S = x_-S, so what it contributes to the step from x to y depends on y alone.

    Args:
        table: the world.
        block: the size of the largest S.
        weights: S -> w_S(y) by state, the probability to choose S and then draw y_S.

    Returns:
        A sparse matrix where it is sparse, else a dense one.
    """
    v, n = table.vocab_size, table.length
    m = v**n
    subsets = [d for j in range(block + 1) for d in combinations(range(n), j)]
    reachable = sum((v - 1) ** len(d) for d in subsets)  # nonzeros of a row, at most
    is_sparse = reachable < _SPARSE_BELOW * m
    # Its nonzeros with their indices, or the dense matrix and the powers the analysis makes of it; the sums over S.
    need = 8.0 * m * ((4 * reachable if is_sparse else 8 * m) + len(subsets))
    check_memory(need, f"the transition matrix of {m} states with blocks of {block}")
    column = {d: i for i, d in enumerate(subsets)}
    total = np.zeros((len(subsets), m))  # Σ_{S ⊇ D} w_S, by D
    for s, weight in weights.items():
        total[column[s]] += weight
    for t in range(n):  # sums over supersets, one position at a time
        for d in subsets:
            if t not in d and len(d) < block:
                total[column[d]] += total[column[tuple(sorted((*d, t)))]]
    return _scatter(table, subsets, total, is_sparse)


def _scatter(table: Table, subsets: list[tuple[int, ...]], total: Array, is_sparse: bool) -> Matrix:
    """P(x, y) = total[D(x, y), y], filled in by the set D of changed positions and by what they change to."""
    v, n = table.vocab_size, table.length
    m = v**n
    y = np.arange(m)
    digit = table.states.numpy()
    place = v ** np.arange(n - 1, -1, -1)
    dense = np.zeros((0, 0) if is_sparse else (m, m))
    rows: list[NDArray[np.int64]] = []
    values: list[Array] = []
    for d, value in zip(subsets, total, strict=True):
        for change in product(range(1, v), repeat=len(d)):
            x = y.copy()
            for t, c in zip(d, change, strict=True):
                x += ((digit[:, t] + c) % v - digit[:, t]) * place[t]
            if is_sparse:
                rows.append(x)
                values.append(value)
            else:
                dense[x, y] = value
    if not is_sparse:
        return dense
    triple = (np.concatenate(values), (np.concatenate(rows), np.tile(y, len(rows))))
    matrix = sparse.csr_matrix(triple, shape=(m, m))
    matrix.eliminate_zeros()
    return matrix
