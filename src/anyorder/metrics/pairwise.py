"""U-PPL, P-PPL, A-KL and G-KL of joints over two positions (section 3 of Torroba Hennigen & Kim 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.joints.pair import PairJoint, tiles
from anyorder.joints.tables import PairTables

METRICS = ("u_ppl", "p_ppl", "a_kl", "g_kl", "u_ratio", "p_ratio")


@dataclass(frozen=True)
class PairScore:
    """One example under one joint; the metrics of a data set are made of means of these."""

    u_nll: float  # -log q'(w_a | w_b) - log q'(w_b | w_a)
    p_nll: float  # -log q'(w_a, w_b)
    a_kl: float  # mean over all conditioning tokens, both directions, of KL(model's conditional ‖ joint's)
    g_kl: float  # the same given the gold tokens only

    def to_dict(self) -> dict[str, float]:
        """The fields, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Interval:
    """A statistic with its 95 % bootstrap confidence interval."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """The fields, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class PairwiseRow:
    """One row of Table 1."""

    method: str
    examples: int
    u_ppl: Interval
    p_ppl: Interval
    a_kl: Interval
    g_kl: Interval
    u_ratio: Interval  # U-PPL over mlm's on the same examples, which differ more than methods do; NaN without mlm
    p_ratio: Interval  # the same of P-PPL

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return asdict(self)


def divergences(tables: PairTables, joints: Mapping[str, PairJoint]) -> dict[str, tuple[Tensor, Tensor]]:
    """D(S, w') of the paper for every conditioning token w', float64 [V] in each direction.

    KL(q(·|b) ‖ q'(·|b)) = Σ_a q(a|b) [log q(a|b) - log q'(a,b)] + log q'(b), so one pass over the tiles of both tables
    serves all joints, and no conditional of a joint is ever laid out.

    Returns:
        For each joint, the KLs of a given b (indexed by b) and of b given a (indexed by a).
    """
    v = tables.vocab_size
    device = tables.log_b_given_a.device
    sums = {
        name: (torch.zeros(v, dtype=torch.float64, device=device), torch.zeros(v, dtype=torch.float64, device=device))
        for name in joints
    }
    for part in tiles(v):
        log_ab, log_ba = tables.log_a_given_b[:, part].T, tables.log_b_given_a[part]  # both [a, b]
        q_ab, q_ba = log_ab.exp(), log_ba.exp()
        entropy_ab, entropy_ba = _expectation(q_ab, log_ab, 0), _expectation(q_ba, log_ba, 1)
        for name, joint in joints.items():
            log_p = joint.rows(part)
            sums[name][0].add_(entropy_ab - _expectation(q_ab, log_p, 0))
            sums[name][1][part] = entropy_ba - _expectation(q_ba, log_p, 1)
    return {
        name: ((given_b + joints[name].marginal(1)).clamp(min=0), (given_a + joints[name].marginal(0)).clamp(min=0))
        for name, (given_b, given_a) in sums.items()
    }


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


def summarise(
    scores: Mapping[str, Sequence[PairScore]], *, seed: int = 0, resamples: int = 2000, size: int = 2
) -> list[PairwiseRow]:
    """The rows of Table 1, one a method, with percentile bootstrap intervals over examples of ``size`` tokens each.

    All methods are resampled with the same draws, since they were measured on the same examples.
    """
    rows = []
    for method, values in scores.items():
        if not values:
            continue
        n = len(values)
        base = [(s.u_nll, s.p_nll) for s in scores.get("mlm", ())] or [(math.nan, math.nan)] * n
        cells = [
            [s.u_nll, s.p_nll, s.a_kl, s.g_kl, s.u_nll - u, s.p_nll - p] for s, (u, p) in zip(values, base, strict=True)
        ]
        table = torch.tensor(cells, dtype=torch.float64)  # [N, 6]
        generator = torch.Generator().manual_seed(seed)
        draws = torch.randint(n, (resamples, n), generator=generator)
        means = table[draws].mean(1)  # [resamples, 6]
        low, high = torch.quantile(means, torch.tensor([0.025, 0.975], dtype=torch.float64), 0)
        row = {
            name: Interval(*(_statistic(name, float(x), size) for x in (table[:, i].mean(), low[i], high[i])))
            for i, name in enumerate(METRICS)
        }
        rows.append(PairwiseRow(method, n, **row))
    return rows


def _statistic(metric: str, mean: float, size: int) -> float:
    """exp(mean / size) for the perplexities, which count tokens, the mean itself for the divergences."""
    return mean if metric.endswith("kl") else float(torch.tensor(mean / size, dtype=torch.float64).exp())
