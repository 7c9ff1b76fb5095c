"""The shape of a chain before its speed: closed classes, period, and the stationary law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import csgraph

from anyorder.chains.transition import Array, Matrix, dense
from anyorder.errors import AnyorderError

# State reduction is exact to the last digit of every entry but costs one Python step per state; beyond this, LU.
_GTH_STATES = 1500


@dataclass(frozen=True)
class Structure:
    """Where a chain ends up."""

    classes: list[NDArray[np.int64]]  # the closed communicating classes, largest first
    period: int  # the longest period of a closed class; 1 is aperiodic

    @property
    def irreducible(self) -> bool:
        """One closed class: the stationary law is unique."""
        return len(self.classes) == 1


def structure(matrix: Matrix) -> Structure:
    """Closed classes and period of a stochastic matrix, from its graph alone (no iteration to wait for).

    Raises:
        AnyorderError: entries are negative or not finite, or rows do not sum to one.
    """
    check_stochastic(matrix)
    graph = sparse.csr_matrix(matrix)
    graph.eliminate_zeros()
    count, label = csgraph.connected_components(graph, directed=True, connection="strong")
    edges = graph.tocoo()
    leaves = np.zeros(count, dtype=bool)
    leaves[label[edges.row[label[edges.row] != label[edges.col]]]] = True
    classes = [np.flatnonzero(label == c) for c in np.flatnonzero(~leaves)]
    classes.sort(key=len, reverse=True)
    return Structure(classes, max(_period(graph[c][:, c]) for c in classes))


def _period(graph: sparse.csr_matrix) -> int:
    """gcd over edges (x, y) of level(x) + 1 - level(y), level(x) the edges from the first state to x."""
    if (graph.diagonal() > 0).any():
        return 1
    level = csgraph.dijkstra(graph, indices=0, unweighted=True).astype(np.int64)
    edges = graph.tocoo()
    return int(np.gcd.reduce(np.abs(level[edges.row] + 1 - level[edges.col])))


def check_stochastic(matrix: Matrix) -> None:
    """Refuse what is not a transition matrix."""
    values = matrix.data if sparse.issparse(matrix) else matrix
    if matrix.shape[0] != matrix.shape[1] or not np.isfinite(values).all() or (values < 0).any():
        raise AnyorderError("a transition matrix is square, with finite entries that are not negative")
    off = float(np.abs(np.asarray(matrix.sum(axis=1)).ravel() - 1.0).max())
    if off > 1e-8:
        raise AnyorderError(f"the rows of a transition matrix sum to one; these are off by up to {off:.2g}")


def stationary(matrix: Matrix, shape: Structure) -> Array:
    """The stationary law of a chain with one closed class; zero on the transient states."""
    inside = shape.classes[0]
    p = dense(matrix[inside][:, inside])
    pi = np.zeros(matrix.shape[0])
    pi[inside] = _gth(p.copy()) if len(inside) <= _GTH_STATES else _solve(p)
    return pi


def _gth(p: Array) -> Array:
    """State reduction (Grassmann, Taksar, Heyman 1985): no subtraction, so no cancellation however slow the chain.

    ``p`` is overwritten.
    """
    n = len(p)
    for i in range(n - 1, 0, -1):
        p[:i, i] /= p[i, :i].sum()
        p[:i, :i] += np.outer(p[:i, i], p[i, :i])
    pi = np.ones(n)
    for i in range(1, n):
        pi[i] = pi[:i] @ p[:i, i]
    return pi / pi.sum()


def _solve(p: Array) -> Array:
    """π(I - P) = 0 with one equation replaced by Σπ = 1, by LU."""
    a = np.eye(len(p)) - p.T
    a[-1] = 1.0
    b = np.zeros(len(p))
    b[-1] = 1.0
    pi = np.maximum(linalg.solve(a, b, overwrite_a=True, overwrite_b=True, check_finite=False), 0.0)
    return pi / pi.sum()
