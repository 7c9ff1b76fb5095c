"""Priors p(r) on the masking ratio and the law they give to masks (Liao et al. 2020, eq 4, 5, 7, 9).

A prior is used only through α_M = p(M), the probability of one particular mask of K tokens out of N. Masks are
exchangeable, so drawing r from p(r) and then each m_n from Bernoulli(r) is the same as drawing the count K from
P(K) = C(N, K) α_M and then a uniform set of K positions. We draw it the second way: counts can then be stratified.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from anyorder.errors import AnyorderError


class Prior(Protocol):
    """A law on masks of N tokens in which only the number of masked tokens matters."""

    def log_alpha(self, k: Tensor, n: int) -> Tensor:
        """log α_M of one particular mask with ``k`` of ``n`` tokens masked."""
        ...

    def __hash__(self) -> int: ...


def _log_beta(a: Tensor | float, b: Tensor | float) -> Tensor:
    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def log_choose(n: int, k: Tensor) -> Tensor:
    """log C(n, k)."""
    k = k.double()
    return -torch.log(torch.tensor(n + 1.0, dtype=torch.float64)) - _log_beta(n - k + 1, k + 1)


@dataclass(frozen=True)
class Uniform:
    """p(r) = 1 on [0, 1] (eq 7): α_M = B(N-K+1, K+1) = (N-K)! K! / (N+1)! (eq 9); K is uniform on 0..N."""

    def log_alpha(self, k: Tensor, n: int) -> Tensor:
        """Eq 9."""
        return _log_beta(n - k + 1, k + 1)


@dataclass(frozen=True)
class Fixed:
    """One ratio for every text: α_M = r^K (1-r)^(N-K) (eq 4). BERT's is 0.15."""

    r: float

    def log_alpha(self, k: Tensor, n: int) -> Tensor:
        """Eq 4; 0 log 0 = 0."""
        k = k.double()
        r = torch.tensor(self.r, dtype=torch.float64)
        return torch.xlogy(k, r) + torch.special.xlog1py(n - k, -r)


@dataclass(frozen=True)
class Beta:
    """r ~ Beta(a, b): α_M = B(K+a, N-K+b) / B(a, b) (eq 5). Beta(1, 1) is the uniform prior."""

    a: float
    b: float

    def log_alpha(self, k: Tensor, n: int) -> Tensor:
        """Eq 5, integrated in closed form."""
        return _log_beta(k + self.a, n - k + self.b) - _log_beta(self.a, self.b)


@dataclass(frozen=True)
class FixedCount:
    """Exactly ``count`` tokens of every text, or all of it when it is shorter."""

    count: int

    def log_alpha(self, k: Tensor, n: int) -> Tensor:
        """-log C(N, count) at K = count, else impossible."""
        return torch.where(k == min(self.count, n), -log_choose(n, k), -torch.inf)


@dataclass(frozen=True)
class FixedShare:
    """The same share of every text, to the nearest whole number and at least one token: XLNet predicts a sixth."""

    share: float

    def log_alpha(self, k: Tensor, n: int) -> Tensor:
        """-log C(N, K) at K = share · N rounded, else impossible."""
        return FixedCount(max(1, round(self.share * n))).log_alpha(k, n)


@dataclass(frozen=True)
class UniformCount:
    """K uniform on 1..N, as the reference code of u-PMLM draws it: the uniform prior without the empty mask."""

    def log_alpha(self, k: Tensor, n: int) -> Tensor:
        """-log N - log C(N, K) for K > 0."""
        each = -torch.log(torch.tensor(float(max(n, 1)), dtype=torch.float64)) - log_choose(n, k)
        return torch.where(k > 0, each, -torch.inf)


@dataclass(frozen=True)
class RootCount:
    """P(K) ∝ K^-1/2 on 1..N: few masked tokens more often than many.

    The gradient of a text's mean loss over K masked tokens has a variance near a / K (measured, but for texts masked
    whole: docs/results/bundled-training.md), and an estimate of Σ_K g_K from one count drawn with P(K) varies least
    when P(K) ∝ sqrt(E g_K²). ``normalise: bound`` takes the weights that keep it unbiased.
    """

    def log_alpha(self, k: Tensor, n: int) -> Tensor:
        """-1/2 log K - log Σ_j j^-1/2 - log C(N, K) for K > 0."""
        total = torch.arange(1, max(n, 1) + 1, dtype=torch.float64).rsqrt().sum().log()
        return torch.where(k > 0, -0.5 * k.double().clamp(min=1).log() - total - log_choose(n, k), -torch.inf)


def log_count(prior: Prior, n: int) -> Tensor:
    """log P(K = k) for k = 0..n, [n+1]."""
    k = torch.arange(n + 1)
    return log_choose(n, k) + prior.log_alpha(k, n)


@lru_cache(maxsize=4096)
def count_probabilities(prior: Prior, n: int) -> np.ndarray:
    """P(K = k) for k = 0..n, [n+1], remembered: a run meets few lengths."""
    return log_count(prior, n).exp().numpy()


def parse_prior(spec: str) -> Prior:
    """A prior from its name in a recipe: ``uniform``, ``uniform-count``, ``root-count``, ``fixed:0.15``, ``beta:2,5``,
    ``count:3``, ``share:0.1667``."""
    name, _, argument = spec.partition(":")
    try:
        numbers = [float(x) for x in argument.split(",")] if argument else []
        match name, numbers:
            case "uniform", []:
                return Uniform()
            case "uniform-count", []:
                return UniformCount()
            case "root-count", []:
                return RootCount()
            case "fixed", [r] if 0 < r <= 1:
                return Fixed(r)
            # Further out the gamma functions of eq 5 lose the digits that the counts need.
            case "beta", [a, b] if min(a, b) >= 1e-6 and max(a, b) <= 1e6:
                return Beta(a, b)
            case "share", [share] if 0 < share <= 1:
                return FixedShare(share)
            case "count", [k] if 1 <= k < 2**31 and k == int(k):
                return FixedCount(int(k))
    except ValueError:
        pass  # a number that does not parse is answered by the same sentence as a wrong name
    raise AnyorderError(
        f"unknown masking prior {spec!r}: use uniform, uniform-count, root-count, fixed:R or share:R (0 < R <= 1), "
        "beta:A,B (1e-6 to 1e6) or count:K"
    )
