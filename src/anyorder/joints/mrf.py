"""The Markov random field (eq 2): the unary conditionals as potentials of one clique."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.joints.pair import PairJoint, Rows, check_tables, log_sums


class Mrf(PairJoint):
    """log p(a, b) = log q(a|b) + log q(b|a) + u_a(a) + u_b(b) - log Z, read off the two tables: no matrix of its own.

    u is zero for the MRF; for MRF-logit it adds back what the softmax took away, which depends only on the row.
    """

    def __init__(
        self, a_given_b: Tensor, b_given_a: Tensor, u_a: Tensor | None = None, u_b: Tensor | None = None
    ) -> None:
        self.vocab_size = check_tables(a_given_b, b_given_a)
        self._ab = a_given_b.T  # [a, b]
        self._ba = b_given_a  # [a, b]
        zero = torch.zeros(self.vocab_size, dtype=self._ba.dtype, device=self._ba.device)
        self._u_a = zero if u_a is None else u_a.to(zero)
        self._u_b = zero if u_b is None else u_b.to(zero)
        self._log_z = 0.0
        log_a, log_b = log_sums(self.rows, self.vocab_size)
        self._log_z = float(torch.logsumexp(log_a, 0))
        self.log_marginals = (log_a - self._log_z, log_b - self._log_z)

    def log_prob(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        """log p(a, b), elementwise over broadcast token ids."""
        return self._ab[a, b].double() + self._ba[a, b] + self._u_a[a] + self._u_b[b] - self._log_z

    def rows(self, a: Rows) -> Tensor:
        """log p(a, ·), [R, V]."""
        out = self._ab[a] + self._ba[a]
        out += self._u_b
        return out.add_((self._u_a[a] - self._log_z)[:, None])


def mrf(
    log_a_given_b: Tensor,
    log_b_given_a: Tensor,
    *,
    log_z_a_given_b: Tensor | None = None,
    log_z_b_given_a: Tensor | None = None,
) -> Mrf:
    """q^MRF(w_a, w_b) ∝ q(w_a | w_b) q(w_b | w_a), eq 2.

    With raw logits in place of log-probabilities this is MRF-logit. Since logits and log-probabilities differ by one
    number per row, MRF-logit needs no second pair of tables: give these numbers instead.

    Args:
        log_a_given_b: [V, V] log q(a | b) (or logits), a row for each b.
        log_b_given_a: [V, V] log q(b | a) (or logits), a row for each a.
        log_z_a_given_b: [V] log-sum-exp of the raw logits of each row of the first table, added back to it.
        log_z_b_given_a: [V] the same for the second.
    """
    return Mrf(log_a_given_b, log_b_given_a, log_z_b_given_a, log_z_a_given_b)
