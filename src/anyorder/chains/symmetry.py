"""Symmetries of a world: states that a symmetry exchanges have the same future, so one of them stands for all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from anyorder.chains.transition import joint
from anyorder.conditionals.table import Table


def representatives(table: Table) -> NDArray[np.int64]:
    """One state of each orbit of the symmetries that are easy to find.

    Tried are exchanging two positions, reading the text backwards, and reversing the order of the words (a spin
    flip); those that leave the joint as it is are kept. A kernel that treats all positions alike inherits them.
    """
    p, n = joint(table), table.length
    index = np.arange(p.size).reshape(p.shape)
    swaps = [partial(np.swapaxes, axis1=i, axis2=j) for i, j in combinations(range(n), 2)]
    moves: list[Callable[[NDArray[Any]], NDArray[Any]]] = [np.transpose, *swaps, np.flip]
    kept = [move(index) for move in moves if np.allclose(move(p), p, rtol=1e-10, atol=0)]
    if not kept:
        return np.arange(p.size)
    partners = np.concatenate([k.ravel() for k in kept])
    graph = sparse.csr_matrix((np.ones(partners.size), (np.tile(index.ravel(), len(kept)), partners)))
    _, orbit = csgraph.connected_components(graph, directed=False)
    return np.unique(orbit, return_index=True)[1]
