"""Are these conditionals those of any joint at all?

Two families of conditionals come from one joint if and only if q(a|b) / q(b|a) = u(a) v(b) (Arnold & Press 1989): in
every 2×2 rectangle of tokens the cross-ratio of q(a|b) equals that of q(b|a). With R(a, b) = log q(a|b) - log q(b|a),

    δ(a, a', b, b') = R(a, b) - R(a', b) - R(a, b') + R(a', b')

is zero for all rectangles, or the model contradicts itself. How much it does so as a whole is the distance to the
nearest joint: what is left of eq 4 at its minimum, Arnold–Gokhale's residual.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.joints.arnold_gokhale import arnold_gokhale
from anyorder.joints.measures import divergences
from anyorder.joints.passes import conditional_rows
from anyorder.joints.tables import PairTables, check_pair, masked_marginals
from anyorder.stats import Record
from anyorder.types import Conditionals


@dataclass(frozen=True)
class Compatibility(Record):
    """How far the conditionals of two positions are from those of a joint, over their top tokens.

    Attributes:
        a: the first position.
        b: the second position.
        tokens: tokens of each position that were looked at.
        rectangles: how many 2×2 rectangles of possible pairs they form.
        mean: mean of |δ| in nats.
        median: median of |δ|.
        max: the largest |δ|.
        worst: the token ids (a, a', b, b') of that rectangle.
        residual: mean KL between the model's conditionals and those of the nearest joint, over conditioning tokens.
        expected_residual: the same, weighted by that joint's own marginals.
        converged: whether the search for that joint came to rest; if not, the residuals are those of a joint near it.
    """

    a: int
    b: int
    tokens: int
    rectangles: int
    mean: float
    median: float
    max: float
    worst: tuple[int, int, int, int]
    residual: float
    expected_residual: float
    converged: bool


def compatibility(
    conditionals: Conditionals,
    tokens: Tensor,
    a: int,
    b: int,
    *,
    top: int | None = 20,
    allowed: Tensor | None = None,
) -> Compatibility:
    """The rectangle test and the residual for positions a and b of one text.

    Args:
        conditionals: the model.
        tokens: [N] the text; what stands at a and b does not matter.
        a: the first position.
        b: the second position.
        top: tokens of each position, the most probable with both masked; their conditionals are taken given that they
            are among them. None for the whole vocabulary.
        allowed: [V] bool, the tokens to choose from; None: all.
    """
    check_pair(len(tokens), a, b)
    v = conditionals.vocab_size if allowed is None else int(allowed.sum())
    if v < 2:
        raise AnyorderError("a single token agrees with itself: allow at least two")
    k = v if top is None else max(2, min(top, v))
    log_a, log_b = masked_marginals(conditionals, tokens, a, b)
    if allowed is not None:
        log_a, log_b = (m.masked_fill(~allowed, -torch.inf) for m in (log_a, log_b))
    ids_a, ids_b = (m.topk(k).indices for m in (log_a, log_b))
    ab, ba = (
        torch.cat([answer.log_q[:, mine].double() for answer in conditional_rows(conditionals, tokens, *where, given)])
        for where, given, mine in (((b, a), ids_b, ids_a), ((a, b), ids_a, ids_b))
    )
    tables = PairTables(
        torch.log_softmax(ab, -1),
        torch.log_softmax(ba, -1),
        *(m.double()[i] for m, i in ((log_a, ids_a), (log_b, ids_b))),
    )
    sizes, worst = cross_ratios(tables.log_a_given_b, tables.log_b_given_a)
    joint = arnold_gokhale(tables.log_a_given_b, tables.log_b_given_a)
    given_b, given_a = divergences(tables, {"ag": joint})["ag"]
    expected = joint.marginal(1).exp() @ given_b + joint.marginal(0).exp() @ given_a
    i, j, m, n = worst
    return Compatibility(
        a=a,
        b=b,
        tokens=k,
        rectangles=len(sizes),
        mean=float(sizes.mean()) if len(sizes) else 0.0,
        median=float(sizes.median()) if len(sizes) else 0.0,
        max=float(sizes.max()) if len(sizes) else 0.0,  # nothing is said twice, so nothing is contradicted
        worst=(int(ids_a[i]), int(ids_a[j]), int(ids_b[m]), int(ids_b[n])),
        residual=float(given_b.mean() + given_a.mean()) / 2,
        expected_residual=float(expected) / 2,
        converged=joint.converged,
    )


def cross_ratios(log_a_given_b: Tensor, log_b_given_a: Tensor) -> tuple[Tensor, tuple[int, int, int, int]]:
    """|δ| of every rectangle of possible pairs, and the indices (a, a', b, b') of the largest.

    Beyond 64 tokens neighbouring ones stand for all: δ of any rectangle is a sum of those of adjacent rows and columns.
    """
    r = log_a_given_b.T - log_b_given_a  # [a, b]
    k = len(r)
    pairs = list(itertools.combinations(range(k), 2)) if k <= 64 else [(i, i + 1) for i in range(k - 1)]
    first, second = (torch.tensor(x) for x in zip(*pairs, strict=True))
    rows = r[first] - r[second]  # [P, b]
    size = (rows[:, first] - rows[:, second]).abs().flatten()
    possible = torch.isfinite(size)  # a rectangle with an impossible pair has no cross-ratio
    at = int(torch.where(possible, size, -1.0).argmax())
    i, j = at // len(pairs), at % len(pairs)
    return size[possible], (int(first[i]), int(second[i]), int(first[j]), int(second[j]))
