"""Hammersley–Clifford–Besag (eq 3): the joint rebuilt from its conditionals, along a path through a pivot."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.joints.pair import PairJoint, Rows, check_tables, log_sums
from anyorder.joints.product import product


class Hcb(PairJoint):
    """log p(a, b) = log q(a|b) + h(b) - log Z with h(b) = log q(b|a') - log q(a'|b): one table and one vector.

    The conditional of a given b is the model's own; all of the incompatibility falls on b given a. With the positions
    exchanged it is the other way round, and for incompatible tables another joint: ``orientation`` says which this is.
    """

    orientation = "a given b"  # eq 3 takes the positions in the order of the text

    def __init__(self, a_given_b: Tensor, b_given_a: Tensor, pivot: tuple[int, int]) -> None:
        self.vocab_size = check_tables(a_given_b, b_given_a)
        self.pivot = pivot
        self._ab = a_given_b.T  # [a, b]
        h = b_given_a[pivot[0]].double() - self._ab[pivot[0]].double()
        check_pivot(h, pivot)
        self._h = h
        log_a, log_b = log_sums(self.rows, self.vocab_size)
        log_z = torch.logsumexp(log_b, 0)
        self._h = h - log_z
        self.log_marginals = (log_a - log_z, log_b - log_z)

    def log_prob(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        """log p(a, b), elementwise over broadcast token ids."""
        return self._ab[a, b].double() + self._h[b]

    def rows(self, a: Rows) -> Tensor:
        """log p(a, ·), [R, V]."""
        return self._ab[a] + self._h.to(self._ab.dtype)


def check_pivot(log_ratio: Tensor, pivot: Sequence[int]) -> None:
    """Refuse a pivot by whose zero probability ``log_ratio``, some factor of eq 3, would be divided."""
    if not torch.isfinite(log_ratio).any() or bool((log_ratio.isnan() | log_ratio.isposinf()).any()):
        raise AnyorderError(
            f"the pivot {tuple(pivot)} has probability zero given some token, so HCB is undefined there: "
            "give a pivot that is possible in every context"
        )


def hcb(log_a_given_b: Tensor, log_b_given_a: Tensor, *, pivot: tuple[int, int] | None = None) -> Hcb:
    """q^HCB(w_a, w_b) ∝ [q(w_a | w_b) / q(w'_a | w_b)] · [q(w_b | w'_a) / q(w'_b | w'_a)], eq 3 for S = (a, b).

    If the tables belong to a joint, this is that joint, whatever the pivot.

    Args:
        log_a_given_b: [V, V] log q(a | b), a row for each b.
        log_b_given_a: [V, V] log q(b | a), a row for each a.
        pivot: w' = (w'_a, w'_b). The paper takes the mode of eq 1; so does None, with :func:`product` of the tables.
            Only w'_a matters for two positions: the factor of w'_b is the same for all pairs.
    """
    if pivot is None:
        log_a, log_b = product(log_a_given_b, log_b_given_a).log_marginals
        pivot = (int(log_a.argmax()), int(log_b.argmax()))
    return Hcb(log_a_given_b, log_b_given_a, pivot)
