"""U-PPL, P-PPL, A-KL and G-KL of joints over two positions (section 3 of Torroba Hennigen & Kim 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from anyorder.stats import Interval, Record, to_json

_RESAMPLES = 2000  # of the bootstrap
METRICS = ("u_ppl", "p_ppl", "a_kl", "g_kl", "u_ratio", "p_ratio")


@dataclass(frozen=True)
class PairScore(Record):
    """One example under one joint; the metrics of a data set are made of means of these."""

    u_nll: float  # -log q'(w_a | w_b) - log q'(w_b | w_a)
    p_nll: float  # -log q'(w_a, w_b)
    a_kl: float  # mean over all conditioning tokens, both directions, of KL(model's conditional ‖ joint's)
    g_kl: float  # the same given the gold tokens only

    @classmethod
    def from_dict(cls, values: Mapping[str, float | None]) -> PairScore:
        """What :meth:`to_dict` wrote."""
        return cls(**{name: math.nan if value is None else value for name, value in values.items()})


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
        found = to_json(asdict(self))
        return {k: None if isinstance(v, dict) and v["value"] is None else v for k, v in found.items()}


def summarise(scores: Mapping[str, Sequence[PairScore]], *, seed: int = 0, size: int = 2) -> list[PairwiseRow]:
    """The rows of Table 1, one per method, with percentile bootstrap intervals over examples of ``size`` tokens each.

    All methods are resampled with the same draws, since they were measured on the same examples. One example has no
    interval: its ends are NaN.
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
        draws = torch.randint(n, (_RESAMPLES, n), generator=generator)
        means = table[draws].mean(1)  # [_RESAMPLES, 6]
        low, high = torch.quantile(means, torch.tensor([0.025, 0.975], dtype=torch.float64), 0)
        if n == 1:
            low = high = torch.full_like(low, math.nan)
        row = {
            name: Interval(*(_statistic(name, float(x), size) for x in (table[:, i].mean(), low[i], high[i])))
            for i, name in enumerate(METRICS)
        }
        rows.append(PairwiseRow(method, n, **row))
    return rows


def _statistic(metric: str, mean: float, size: int) -> float:
    """exp(mean / size) for the perplexities, which count tokens, the mean itself for the divergences."""
    return mean if metric.endswith("kl") else float(torch.tensor(mean / size, dtype=torch.float64).exp())
