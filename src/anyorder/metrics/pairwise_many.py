"""The metrics of section 3 of Torroba Hennigen & Kim (2023) for more than two positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from anyorder.joints.many import ManyTables
from anyorder.joints.many_joint import ManyJoint
from anyorder.metrics.pairwise import PairScore


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
            p = torch.log_softmax(joint.log_p, t)
            kl = torch.where(q > -torch.inf, q.exp() * (q - p), 0.0).sum(t, keepdim=True)
            unary -= float((q if name == "mlm" else p)[cell])
            mean += float(kl.mean()) / k
            at_gold += float(kl[tuple(0 if s == t else c for s, c in enumerate(cell))]) / k
        out[name] = PairScore(u_nll=unary, p_nll=-float(joint.log_p[cell]), a_kl=max(0.0, mean), g_kl=max(0.0, at_gold))
    return out
