"""Joints of k = 2, 3, 4 positions on a support of K tokens each: exact where V^k is small, truncated elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.joints.fixed_point import fixed_point
from anyorder.joints.hcb import check_pivot
from anyorder.joints.many_joint import ManyJoint
from anyorder.joints.passes import NO_LOGITS, conditional_rows
from anyorder.joints.tables import masked_marginals
from anyorder.types import Conditionals

MAX_ROWS = 200_000  # of the model; beyond, the user should know before waiting
MAX_CELLS = 2**26  # of the joint, in float64


@dataclass(frozen=True, eq=False)
class ManyTables:
    """The unary conditionals of k positions given each other, over a support.

    Attributes:
        support: token ids of each position, [K_t].
        log_q: log q_t(w_t | w_-t), one tensor [K_1, ..., K_k] per position, normalised along axis t over the support.
        log_masked: log q_t with all k positions masked, [K_t] each, normalised over the support (eq 1).
        kept: the mass each row had on the support before it was normalised, same shape without axis t (size 1 there).
        log_z: raw logits minus log_q, the same along axis t (size 1 there); None where there are no logits.
    """

    support: tuple[Tensor, ...]
    log_q: tuple[Tensor, ...]
    log_masked: tuple[Tensor, ...]
    kept: tuple[Tensor, ...]
    log_z: tuple[Tensor, ...] | None = None


def many_tables(
    conditionals: Conditionals,
    tokens: Tensor,
    positions: Sequence[int],
    *,
    support: int | None = None,
    include: Sequence[int] | None = None,
    report: Callable[[int], object] = lambda rows: None,
) -> ManyTables:
    """Ask for every conditional of the support: Σ_t Π_{s≠t} K_s rows of the model.

    Args:
        conditionals: the model.
        tokens: [N] the text; what stands at the positions does not matter.
        positions: k different positions, 2 to 4 of them.
        support: K, the most probable tokens of each position with all masked; None for the whole vocabulary.
        include: tokens, one per position, that are in the support in any case.
        report: called with the number of rows just finished.
    """
    k, v = len(positions), conditionals.vocab_size
    if not 2 <= k <= 4 or len(set(positions)) != k or not all(0 <= p < len(tokens) for p in positions):
        raise AnyorderError(f"two to four different positions of the {len(tokens)} are needed, not {list(positions)}")
    size = v if support is None else min(support, v)
    check_size(size, k)
    masked = [log_q.double() for log_q in masked_marginals(conditionals, tokens, *positions)]  # [V] each
    chosen = []
    for t in range(k):
        best = masked[t].topk(size).indices
        if include is not None and include[t] not in best.tolist():
            best[-1] = include[t]  # in place of the least probable
        chosen.append(best.sort().values)
    log_q, kept, log_z = [], [], []
    for t in range(k):
        others = [s for s in range(k) if s != t]
        grid = torch.cartesian_prod(*(chosen[s] for s in others)).view(-1, k - 1)  # [Π K_s, k-1]
        parts = []
        for answer in conditional_rows(conditionals, tokens, [positions[s] for s in others], positions[t], grid):
            parts.append((answer.log_q[:, chosen[t]].double(), answer.log_z))
            report(len(answer.log_q))
        table = _axes(torch.cat([rows for rows, _ in parts]), size, k, t)
        mass = torch.logsumexp(table, t, keepdim=True)
        log_q.append(table - mass)
        kept.append(mass.exp())
        normalisers = [z.double() for _, z in parts if z is not None]
        if normalisers:
            log_z.append(_axes(torch.cat(normalisers)[:, None], size, k, t) + mass)
    log_masked = tuple(torch.log_softmax(masked[t][chosen[t]], 0) for t in range(k))
    return ManyTables(tuple(chosen), tuple(log_q), log_masked, tuple(kept), tuple(log_z) or None)


def _axes(rows: Tensor, size: int, k: int, t: int) -> Tensor:
    """[size^(k-1), n] answers at position t as [size, ..., n, ..., size], axes in the order of positions."""
    return rows.view(*[size] * (k - 1), -1).movedim(-1, t)


def check_size(size: int, k: int) -> None:
    """Refuse before the first pass what would not end, or not fit."""
    rows, cells = k * size ** (k - 1), size**k
    if rows > MAX_ROWS or cells > MAX_CELLS:
        fits = max(K for K in range(1, size) if k * K ** (k - 1) <= MAX_ROWS and K**k <= MAX_CELLS)
        raise AnyorderError(
            f"{k} positions of {size} tokens take {rows:,} rows of the model and {cells:,} cells: "
            f"restrict the support to at most {fits} tokens per position"
        )


def many_product(tables: ManyTables) -> ManyJoint:
    """Eq 1: Π_t q_t with all positions masked."""
    return ManyJoint.of(tables, torch.stack(torch.meshgrid(*tables.log_masked, indexing="ij")).sum(0))


def many_mrf(tables: ManyTables) -> ManyJoint:
    """Eq 2: μ(w) ∝ Π_t q_t(w_t | w_-t)."""
    return ManyJoint.of(tables, torch.stack(tables.log_q).sum(0))


def many_mrf_logit(tables: ManyTables) -> ManyJoint:
    """Eq 2 with raw logits in place of log-probabilities."""
    if tables.log_z is None:
        raise AnyorderError(NO_LOGITS)
    return ManyJoint.of(tables, torch.stack(tables.log_q).sum(0) + sum(tables.log_z))


def many_hcb(tables: ManyTables, pivot: Sequence[int] | None = None) -> ManyJoint:
    """Eq 3: μ(w) ∝ Π_t q_t(w_t | w_>t, w'_<t) / q_t(w'_t | w_>t, w'_<t); the pivot w' is the mode of eq 1 if None.

    ``pivot`` counts in the support, not in the vocabulary. The order of the positions matters, as for a pair: only the
    first keeps the model's own conditional given all others.
    """
    k = len(tables.support)
    at = [int(m.argmax()) for m in tables.log_masked] if pivot is None else list(pivot)
    log_p = torch.zeros_like(tables.log_q[0])
    for t in range(k):
        given = tables.log_q[t]
        for s in range(t):
            given = given.select(s, at[s]).unsqueeze(s)
        log_p = log_p + given - given.select(t, at[t]).unsqueeze(t)
    check_pivot(log_p, at)
    return ManyJoint.of(tables, log_p)


def many(tables: ManyTables, *, max_iterations: int = 1000) -> ManyJoint:
    """Arnold–Gokhale for k positions: μ(w) ∝ Σ_t q_t(w_t | w_-t) / Σ_t 1/μ_-t(w_-t).

    The same argument as for a pair: with C(w) = Σ_t q_t(w_t | w_-t), eq 4 is -Σ C log μ + Σ_t Σ log μ_-t, convex in
    log μ, and bounding the second sum by its tangent at the current μ_-t gives this step, which needs only the k
    marginals of k-1 positions.

    Args:
        tables: from :func:`many_tables`.
        max_iterations: steps at most; ``converged`` of the joint says whether they were enough.
    """
    k = len(tables.support)
    c = torch.stack([q.exp() for q in tables.log_q]).sum(0).clamp(min=torch.finfo(torch.float64).tiny)
    shapes = [[1 if s == t else n for s, n in enumerate(c.shape)] for t in range(k)]
    sizes = [math.prod(shape) for shape in shapes]
    mu = c

    def step(x: Tensor) -> Tensor:
        nonlocal mu
        mu = c / sum((-part).exp().view(shape) for part, shape in zip(x.split(sizes), shapes, strict=True))
        mu = mu / mu.sum()
        return torch.cat([mu.sum(t, keepdim=True).flatten() for t in range(k)])

    found = fixed_point(step, sizes, tolerance=1e-12, max_iterations=max_iterations)
    joint = ManyJoint.of(tables, mu.log())
    return replace(joint, iterations=found.iterations, change=found.change, converged=found.converged)
