"""How fast a chain forgets its start, and where it ends: gap, mixing time, stationary law, all exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse, special
from scipy.sparse import linalg as sparse_linalg

from anyorder.chains.mixing_time import mixing_time
from anyorder.chains.structure import stationary, structure
from anyorder.chains.transition import Array, Matrix, dense

# Up to this many states the whole spectrum is cheap; beyond it only the edge is computed, by Lanczos or Arnoldi.
_DENSE_STATES = 600


@dataclass(frozen=True)
class Mixing:
    """What a chain does in the long run. Infinite times and a missing law mean that it never forgets its start."""

    gap: float  # 1 - |λ₂|: 0 when reducible or periodic
    poincare: float | None  # C of Var f ≤ C · E(f, f), 1/(1 - λ₂); None for a chain that is not reversible
    mixing_time: float  # steps until max_x TV(P^t(x, ·), π) ≤ 1/4
    mixing_time_is_bound: bool  # True: the chain is too slow to follow; mixing_time is a lower bound from the gap
    stationary: Array | None
    reversible: bool
    closed_classes: int
    period: int

    @property
    def relaxation_time(self) -> float:
        """1 / gap."""
        return 1.0 / self.gap if self.gap > 0 else math.inf

    @property
    def remark(self) -> str:
        """Why there is no answer, if there is none."""
        if self.closed_classes > 1:
            return f"reducible: {self.closed_classes} closed classes"
        return f"periodic: period {self.period}" if self.period > 1 else ""

    def to_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON: infinite is null, the law itself left out."""
        return {
            "gap": self.gap,
            "relaxation_time": self.relaxation_time if self.gap > 0 else None,
            "poincare": self.poincare if self.poincare is not None and math.isfinite(self.poincare) else None,
            "mixing_time": self.mixing_time if math.isfinite(self.mixing_time) else None,
            "mixing_time_is_bound": self.mixing_time_is_bound,
            "reversible": self.reversible,
            "closed_classes": self.closed_classes,
            "period": self.period,
            "remark": self.remark,
        }


def analyse(matrix: Matrix, target: Array | None = None, starts: NDArray[np.int64] | None = None) -> Mixing:
    """Everything about a chain's long run.

    Args:
        matrix: transition matrix [M, M], dense or sparse.
        target: a law the chain is expected to keep. If detailed balance holds for it, it is the stationary law to
            the last digit; otherwise the law is solved for.
        starts: the states to start from in the search for the worst; all by default. One of each orbit of the
            chain's symmetries is enough, see :func:`anyorder.chains.symmetry.representatives`.
    """
    shape = structure(matrix)
    if not shape.irreducible:
        return Mixing(0.0, math.inf, math.inf, False, None, False, len(shape.classes), shape.period)
    pi = target if target is not None and in_balance(matrix, target) else stationary(matrix, shape)
    reversible = in_balance(matrix, pi)
    inside = shape.classes[0]
    core = matrix[inside][:, inside]
    if reversible:
        second, gap = _reversible_gaps(core, pi[inside])
        poincare = 1.0 / second if second > 0 else math.inf
    else:
        gap, poincare = _gap(core, pi[inside]), None
    if shape.period > 1:
        return Mixing(0.0, poincare, math.inf, False, pi, reversible, 1, shape.period)
    time, is_bound = mixing_time(matrix, pi, gap, starts)
    return Mixing(gap, poincare, time, is_bound, pi, reversible, 1, 1)


def poincare_constant(matrix: Matrix, pi: Array) -> float:
    """The least C with Var f ≤ C · ½ Σ π(x) P(x,y) (f(x) - f(y))² for all f, of a chain reversible in π.

    For Gibbs with random masks the right-hand form is E_S E Var(f | x_-S). Infinite if the chain is reducible.
    """
    shape = structure(matrix)
    if not shape.irreducible:
        return math.inf
    inside = shape.classes[0]
    second, _ = _reversible_gaps(matrix[inside][:, inside], pi[inside])
    return 1.0 / second if second > 0 else math.inf


def in_balance(matrix: Matrix, pi: Array) -> bool:
    """Detailed balance, π(x) P(x, y) = π(y) P(y, x), to nine digits of every entry."""
    if sparse.issparse(matrix):
        flow = sparse.diags(pi) @ matrix
        difference, size = abs(flow - flow.T).tocoo(), flow.maximum(flow.T)
        return bool((difference.data <= 1e-9 * np.asarray(size.tocsr()[difference.row, difference.col]).ravel()).all())
    flow = pi[:, None] * matrix
    return bool((np.abs(flow - flow.T) <= 1e-9 * np.maximum(flow, flow.T)).all())


def _reversible_gaps(p: Matrix, pi: Array) -> tuple[float, float]:
    """(1 - λ₂, 1 - max |λ|) over the eigenvalues other than the first.

    Near λ₂ = 1 the difference 1 - λ₂ has no digits left, so it is read off the Dirichlet form
    ½ Σ π(x) P(x,y) (f(x) - f(y))² of the eigenfunction f, a sum of positive terms, which is second-order exact.
    """
    if len(pi) == 1:
        return 1.0, 1.0
    root = np.sqrt(pi)
    if len(pi) <= _DENSE_STATES:
        a = (root[:, None] / root) * dense(p)
        values, vectors = linalg.eigh((a + a.T) / 2 - 2 * np.outer(root, root))  # λ₁ = 1 is moved below all others
        top, low, vector = float(values[-1]), float(values[1]), vectors[:, -1]
    else:
        a = sparse.diags(root) @ p @ sparse.diags(1 / root) if sparse.issparse(p) else (root[:, None] / root) * p
        # λ₁ = 1 is moved to 0: of so many eigenvalues, which sum to no less than 0, the others are not all below it.
        deflated = sparse_linalg.LinearOperator(a.shape, matvec=lambda g: a @ g - root * (root @ g), dtype=np.float64)
        start = np.linspace(-1.0, 1.0, len(pi))  # a fixed start: the same answer every time
        low, vector = _edge(deflated, "LM", start)
        top, vector = (low, vector) if low > 0 else _edge(deflated, "LA", start)
    second = 1.0 - top
    if second < 1e-3:
        f = p @ (vector / root)  # one step of the chain smooths the values on rare states
        f = f - pi @ f
        edges = sparse.coo_matrix(p)
        form = 0.5 * float((pi[edges.row] * edges.data * (f[edges.row] - f[edges.col]) ** 2).sum())
        second = form / float(pi @ f**2)
    return second, min(second, 1.0 + low)


def _edge(operator: sparse_linalg.LinearOperator, which: str, start: Array) -> tuple[float, Array]:
    """The eigenvalue at one edge of a symmetric spectrum, and its vector, by Lanczos."""
    values, vectors = sparse_linalg.eigsh(operator, k=1, which=which, v0=start, tol=1e-10)
    return float(values[0]), vectors[:, 0]


def _gap(p: Matrix, pi: Array) -> float:
    """1 - |λ₂| of a chain that is not reversible."""
    if len(pi) <= _DENSE_STATES:
        return max(0.0, 1.0 - float(np.abs(np.linalg.eigvals(dense(p) - pi)).max()))
    deflated = sparse_linalg.LinearOperator(p.shape, matvec=lambda f: p @ f - pi @ f, dtype=np.float64)
    start = np.linspace(-1.0, 1.0, len(pi))
    values = sparse_linalg.eigs(deflated, k=2, which="LM", v0=start, ncv=40, tol=1e-8, return_eigenvectors=False)
    return max(0.0, 1.0 - float(np.abs(values).max()))


def total_variation(p: Array, q: Array) -> float:
    """½ Σ |p - q|."""
    return 0.5 * float(np.abs(p - q).sum())


def divergence(p: Array, q: Array) -> float:
    """KL(p ‖ q) in nats; infinite where q misses mass of p."""
    return max(0.0, float(special.rel_entr(p, q).sum()))
