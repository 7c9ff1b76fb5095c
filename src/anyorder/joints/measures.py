"""How far joints are from the model's conditionals and from the text (section 3 of Torroba Hennigen & Kim 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from anyorder.joints.many import ManyTables
from anyorder.joints.many_joint import ManyJoint
from anyorder.joints.pair import PairJoint, tiles
from anyorder.joints.tables import PairTables
from anyorder.metrics.pairwise import PairScore


def divergences(tables: PairTables, joints: Mapping[str, PairJoint]) -> dict[str, tuple[Tensor, Tensor]]:
    """D(S, w') of the paper for every conditioning token w', float64 [V] in each direction.

    KL(q(·|b) ‖ q'(·|b)) = Σ_a q(a|b) [log q(a|b) - log q'(a,b)] + log q'(b), so one pass over the tiles of both tables
    serves all joints, and no conditional of a joint is ever laid out. Where q'(b) is zero the joint's conditional is
    the uniform distribution, as :meth:`anyorder.joints.pair.PairJoint.conditional` has it.

    Returns:
        For each joint, the KLs of a given b (indexed by b) and of b given a (indexed by a).
    """
    v = tables.vocab_size
    zeros = torch.zeros(2, v, dtype=torch.float64, device=tables.log_b_given_a.device)
    cross = {name: zeros.clone() for name in joints}  # Σ q log q' given b, and given a
    own = zeros.clone()  # Σ q log q
    for part in tiles(v):
        log_ab, log_ba = tables.log_a_given_b[:, part].T, tables.log_b_given_a[part]  # both [a, b]
        q_ab, q_ba = log_ab.exp(), log_ba.exp()
        own[0] += _expectation(q_ab, log_ab, 0)
        own[1, part] = _expectation(q_ba, log_ba, 1)
        for name, joint in joints.items():
            log_p = joint.rows(part)
            cross[name][0] += _expectation(q_ab, log_p, 0)
            cross[name][1, part] = _expectation(q_ba, log_p, 1)
    found = {}
    for name, joint in joints.items():
        given = torch.stack([joint.marginal(1), joint.marginal(0)]).to(own)
        kl = torch.where(torch.isneginf(given), own + math.log(v), own - cross[name] + given).clamp(min=0)
        found[name] = (kl[0], kl[1])
    return found


def _expectation(q: Tensor, x: Tensor, axis: int) -> Tensor:
    """Σ q x along ``axis`` in float64, with 0 · (-inf) = 0."""
    out = (q * x).sum(axis)
    if bool(torch.isnan(out).any()):  # only tables with exact zeros pay for the mask
        out = torch.where(q > 0, q * x, 0.0).sum(axis)
    return out.double()


def score_pair(tables: PairTables, joints: Mapping[str, PairJoint], gold: tuple[int, int]) -> dict[str, PairScore]:
    """All four quantities of every joint for the gold tokens (w_a, w_b).

    The joint called "mlm" is scored by the model's own unary conditionals in U-PPL, as in the paper.
    """
    a, b = gold
    out = {}
    for name, (given_b, given_a) in divergences(tables, joints).items():
        joint = joints[name]
        if name == "mlm":
            unary = float(tables.log_a_given_b[b, a]) + float(tables.log_b_given_a[a, b])
        else:
            unary = float(joint.conditional(1, b)[a]) + float(joint.conditional(0, a)[b])
        out[name] = PairScore(
            u_nll=-unary,
            p_nll=-float(joint.log_prob(a, b)),
            a_kl=float(given_b.mean() + given_a.mean()) / 2,
            g_kl=float(given_b[b] + given_a[a]) / 2,
        )
    return out


def score_many(tables: ManyTables, joints: Mapping[str, ManyJoint], gold: Sequence[int]) -> dict[str, PairScore]:
    """U-PPL, P-PPL, A-KL and G-KL of section 3 for k positions, per example: the sums over pairs become sums over k.

    The joint called "mlm" is scored by the model's own unary conditionals in U-PPL.
    """
    k = len(tables.support)
    out = {}
    for name, joint in joints.items():
        cell = joint.index(gold)
        unary, mean, at_gold = 0.0, 0.0, 0.0
        for t in range(k):
            q = tables.log_q[t]
            p = joint.conditionals(t)
            kl = torch.where(q > -torch.inf, q.exp() * (q - p), 0.0).sum(t, keepdim=True)
            unary -= float((q if name == "mlm" else p)[cell])
            mean += float(kl.mean()) / k
            at_gold += float(kl[tuple(0 if s == t else c for s, c in enumerate(cell))]) / k
        out[name] = PairScore(u_nll=unary, p_nll=-float(joint.log_p[cell]), a_kl=max(0.0, mean), g_kl=max(0.0, at_gold))
    return out
