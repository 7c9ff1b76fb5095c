"""An explicit distribution over k positions on a support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from anyorder.joints.many import ManyTables


@dataclass(frozen=True, eq=False)
class ManyJoint:
    """p(w_1, ..., w_k) on a support.

    Attributes:
        support: token ids of each position, [K_t].
        log_p: [K_1, ..., K_k], normalised.
        outside: for each position, the mass that the model's conditionals put outside the support, averaged under
            this joint: how much the truncation leaves out.
        iterations: steps of Arnold–Gokhale, 0 for the other constructions.
        change: total variation of the marginals in the last step.
        converged: whether they came to rest, rather than stopped at the limit of steps.
    """

    support: tuple[Tensor, ...]
    log_p: Tensor
    outside: tuple[float, ...]
    iterations: int = 0
    change: float = 0.0
    converged: bool = True

    @classmethod
    def of(cls, tables: ManyTables, log_p: Tensor) -> ManyJoint:
        """Normalise ``log_p`` and measure what the support leaves out."""
        log_p = log_p - torch.logsumexp(log_p.flatten(), 0)
        p = log_p.exp()
        outside = [
            float((p.sum(t, keepdim=True) * (1 - kept)).sum().clamp(min=0)) for t, kept in enumerate(tables.kept)
        ]
        return cls(tables.support, log_p, tuple(outside))

    def log_prob(self, *tokens: int) -> Tensor:
        """log p of one token id per position; -inf outside the support."""
        return self.log_p[self.index(tokens)] if self.covers(tokens) else torch.tensor(-torch.inf, dtype=torch.float64)

    def marginal(self, axis: int) -> Tensor:
        """Log marginal of one position over its support, [K]."""
        others = [s for s in range(self.log_p.ndim) if s != axis]
        return torch.logsumexp(self.log_p, others)

    def conditional(self, axis: int, tokens: Sequence[int]) -> Tensor:
        """Log conditional [K] of position ``axis`` given the token ids of all others (its own is not looked at).

        What has probability zero has no conditional; it is answered with the uniform distribution.
        """
        given = list(tokens)
        given[axis] = int(self.support[axis][0])
        cell = list(self.index(given))
        cell[axis] = slice(None)  # type: ignore[call-overload]  # a list of numbers until here
        return _conditional(self.log_p[tuple(cell)], 0)

    def conditionals(self, axis: int) -> Tensor:
        """Log conditionals of position ``axis`` given all others, [K_1, ..., K_k]."""
        return _conditional(self.log_p, axis)

    def top(self, n: int) -> list[tuple[tuple[int, ...], float]]:
        """The n most probable fillings as (token ids, probability), best first."""
        best = self.log_p.flatten().topk(min(n, self.log_p.numel()))
        cells = torch.stack(torch.unravel_index(best.indices, self.log_p.shape), 1)
        ids = torch.stack([s[cells[:, t]] for t, s in enumerate(self.support)], 1)
        return [(tuple(row), p) for row, p in zip(ids.tolist(), best.values.exp().tolist(), strict=True)]

    def sample(self, generator: torch.Generator, n: int) -> Tensor:
        """[n, k] independent draws of token ids."""
        # By inversion: multinomial takes no more than 2^24 categories.
        total = self.log_p.flatten().exp().cumsum(0)
        u = torch.rand(n, generator=generator, dtype=torch.float64) * total[-1]
        cells = torch.unravel_index(
            torch.searchsorted(total, u, right=True).clamp(max=len(total) - 1), self.log_p.shape
        )
        return torch.stack([s[cell] for s, cell in zip(self.support, cells, strict=True)], 1)

    def covers(self, tokens: Sequence[int]) -> bool:
        """Whether every token is in the support of its position."""
        return all(bool((s == token).any()) for s, token in zip(self.support, tokens, strict=True))

    def index(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Where the tokens stand in ``log_p``."""
        if not self.covers(tokens):
            raise AnyorderError(f"the tokens {list(tokens)} are not all in the support: include them, or enlarge it")
        return tuple(int((s == token).nonzero()[0]) for s, token in zip(self.support, tokens, strict=True))


def _conditional(log_p: Tensor, axis: int) -> Tensor:
    """log p along ``axis``, normalised; uniform where all of it is -inf."""
    found = torch.log_softmax(log_p, axis)
    return torch.where(found.isnan(), -math.log(log_p.shape[axis]), found)
