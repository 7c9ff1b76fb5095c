"""The direct construction (eq 1): both positions masked at once, their conditionals multiplied."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.joints.pair import PairJoint, Rows, check_tables

_SMALL = 1024  # tokens up to which float64 costs next to nothing
_SWEEPS = 10_000  # of the Gibbs chain; it stops much earlier unless the tables hardly mix


class Product(PairJoint):
    """p(a, b) = q_a(a) q_b(b): two vectors, no V×V matrix at all."""

    def __init__(self, log_a: Tensor, log_b: Tensor) -> None:
        self.vocab_size = log_a.shape[0]
        self.log_marginals = (torch.log_softmax(log_a.double(), -1), torch.log_softmax(log_b.double(), -1))
        self._a, self._b = (x.to(log_a.dtype) for x in self.log_marginals)  # tiles keep the precision of the model

    def log_prob(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        """log p(a, b), elementwise over broadcast token ids."""
        return self.log_marginals[0][a] + self.log_marginals[1][b]

    def rows(self, a: Rows) -> Tensor:
        """log p(a, ·), [R, V]."""
        return self._a[a][:, None] + self._b


def product(log_a_given_b: Tensor, log_b_given_a: Tensor) -> Product:
    """q^MLM(w_a, w_b) = q_{a|S̄}(w_a) q_{b|S̄}(w_b), eq 1.

    Eq 1 needs what the model says with *both* positions masked: pass these two vectors [V]. Given the two tables
    [V, V] that the other constructions take, which do not hold them, their place is taken by the marginals that the
    tables imply: the stationary marginals of the Gibbs chain that alternates between them. For tables that belong to
    some joint these are its marginals, which is what an exact model answers under two masks.

    Args:
        log_a_given_b: [V] log q_{a|S̄} with both masked, or the table [V, V] of log q(a | b), a row for each b.
        log_b_given_a: [V] log q_{b|S̄} with both masked, or the table [V, V] of log q(b | a), a row for each a.
    """
    if log_a_given_b.ndim == 1 and log_a_given_b.shape == log_b_given_a.shape:
        return Product(log_a_given_b, log_b_given_a)
    return Product(*gibbs_marginals(log_a_given_b, log_b_given_a))


def gibbs_marginals(log_a_given_b: Tensor, log_b_given_a: Tensor) -> tuple[Tensor, Tensor]:
    """log μ_a, log μ_b with μ_a = μ_b Q_{a|b} and μ_b = μ_a Q_{b|a}, by power iteration from uniform."""
    v = check_tables(log_a_given_b, log_b_given_a)
    dtype = torch.float64 if v <= _SMALL else log_a_given_b.dtype
    a_given_b, b_given_a = log_a_given_b.to(dtype).exp(), log_b_given_a.to(dtype).exp()
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    mu_b = torch.full((v,), 1.0 / v, dtype=a_given_b.dtype, device=a_given_b.device)
    for _ in range(_SWEEPS):
        mu_a = mu_b @ a_given_b
        old, mu_b = mu_b, mu_a @ b_given_a
        mu_b = mu_b / mu_b.sum()
        if float((mu_b - old).abs().sum()) < tolerance:
            break
    return (mu_b @ a_given_b).log(), mu_b.log()
