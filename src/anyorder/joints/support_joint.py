"""The joint that an adaptive support leads to: four regions of the table, each read off what is known there."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anyorder.joints.arnold_gokhale import Fit
from anyorder.joints.pair import PairJoint, Rows


class SupportJoint(PairJoint):
    """A joint over the whole vocabulary from a few rows; see :mod:`anyorder.joints.support` for the regions I to IV.

    Attributes:
        support: the tokens of a and of b whose rows are known.
        columns: the mass of each token of a in III and of each token of b in II, [V] each, zero in the support; it
            counts I, II and III as one.
        outside: κ, the estimated mass of IV, pairs of which neither token was examined; it is spread there as the
            product of the model's answers under two masks.
        outside_error: half the width of the 95 % interval of ``outside``; this, not κ itself, is what ``tail`` limits.
        rows_asked: rows of the model that it took.
        iterations: passes of Arnold–Gokhale over region I.
        change: total variation of the marginals in the last of them.
        converged: whether they came to rest, rather than stopped at the limit of passes.
    """

    def __init__(
        self,
        support: tuple[Tensor, Tensor],
        log_q: tuple[Tensor, Tensor],
        c: Tensor,
        fit: Fit,
        masked: tuple[Tensor, ...],
        *,
        kappa: float = 0.0,
        error: float = 1.0,
        rows_asked: int = 0,
    ) -> None:
        self.vocab_size = v = len(masked[0])
        self.support, self._log_q, self._c, self._masked = support, log_q, c, masked
        self.iterations, self.change, self.converged = fit.iterations, fit.change, fit.converged
        self._index = tuple(torch.full((v,), -1).scatter_(0, ids, torch.arange(len(ids))) for ids in support)
        # μ_a sums I and II; with III, the mass of all that is known. From here on μ is relative to that.
        log_mu_a, log_mu_b = fit.log_mu
        third = (log_mu_b.exp() @ log_q[1].double().exp()).index_fill_(0, support[0], 0.0)  # [V] by token of a
        log_total = float((log_mu_a.exp().sum() + third.sum()).log())
        self._log_mu = (log_mu_a - log_total, log_mu_b - log_total)
        second = (self._log_mu[0].exp() @ log_q[0].double().exp()).index_fill_(0, support[1], 0.0)
        self.columns = (third * math.exp(-log_total), second)
        # IV: the product of what the two masked answers leave outside the support.
        left = [m.double().exp().index_fill(0, ids, 0.0) for m, ids in zip(masked, support, strict=True)]
        room = float(left[0].sum() * left[1].sum())
        self.outside = min(kappa, 1 - 1e-9) if room > 0 else 0.0
        self.outside_error, self.rows_asked = error, rows_asked
        self._log_known = math.log1p(-self.outside)  # what I, II and III together have
        self._log_corner = math.log(self.outside / room) if self.outside > 0 else -math.inf  # so that IV holds κ
        self.log_marginals = (self._log_marginal(0, left[0]), self._log_marginal(1, left[1]))

    def _log_marginal(self, side: int, left: Tensor) -> Tensor:
        p = self.columns[side].index_copy(0, self.support[side], self._log_mu[side].exp()) * (1 - self.outside)
        return (p + self.outside * left / left.sum() if self.outside > 0 else p).log()

    def log_prob(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        """log p(a, b), elementwise over broadcast token ids."""
        a, b = torch.broadcast_tensors(torch.as_tensor(a), torch.as_tensor(b))
        i, j = self._index[0][a], self._index[1][b]
        has_a, has_b = i >= 0, j >= 0
        i, j = i.clamp(min=0), j.clamp(min=0)
        mu_a, mu_b = self._log_mu[0][i], self._log_mu[1][j]
        both = self._c[i, j].log() + mu_a + mu_b - torch.logaddexp(mu_a, mu_b)
        second = mu_a + self._log_q[0][i, b]
        third = mu_b + self._log_q[1][j, a]
        known = torch.where(has_a & has_b, both, torch.where(has_a, second, third)) + self._log_known
        corner = self._masked[0][a].double() + self._masked[1][b] + self._log_corner
        return torch.where(has_a | has_b, known, corner)

    def rows(self, a: Rows) -> Tensor:
        """log p(a, ·), [R, V]."""
        ids = torch.arange(self.vocab_size)[a]
        return self.log_prob(ids[:, None], torch.arange(self.vocab_size))

    def known_row(self, axis: int, token: int) -> Tensor:
        """The model's own log-conditional [V] of the other position, given a token of the support on ``axis``."""
        return self._log_q[axis][self._index[axis][token]]

    def top(self, k: int) -> list[tuple[int, int, float]]:
        """The k most probable pairs, from the best of every region rather than from all V² cells."""
        every = torch.arange(self.vocab_size)
        # IV is a product, so its best pairs are made of the best tokens outside the support.
        outside = (m.index_fill(0, ids, -torch.inf) for m, ids in zip(self._masked, self.support, strict=True))
        best_a, best_b = (m.topk(min(k, len(m))).indices for m in outside)
        blocks = [(self.support[0], every), (every, self.support[1]), (best_a, best_b)]
        found: dict[tuple[int, int], float] = {}
        for a, b in blocks:
            for part in a.split(max(1, 2**20 // max(1, len(b)))):
                p = self.log_prob(part[:, None], b).flatten()
                best = p.topk(min(k, len(p)))
                for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                    found[int(part[index // len(b)]), int(b[index % len(b)])] = value
        ranked = sorted(found.items(), key=lambda item: -item[1])[:k]
        return [(a, b, math.exp(value)) for (a, b), value in ranked]
