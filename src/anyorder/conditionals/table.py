"""Exact conditionals of an explicit joint over V^N: the oracle every algorithm here is held against."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations, pairwise

import torch
from torch import Tensor

# Rows of the (pattern x state) comparison held at once; bounds memory at a few hundred MB in float64.
_CELLS = 2**24


class Table:
    """The conditionals of ``log_joint``, shape [V]*N, normalised on construction (float64).

    ``mask_id`` is V. Conditioning on an event of probability zero has no answer; such a row is answered with the
    uniform distribution, so that a biased sampler that strays there goes on instead of failing.
    """

    pad_id: int | None = None

    def __init__(self, log_joint: Tensor) -> None:
        if log_joint.ndim == 0 or len(set(log_joint.shape)) != 1:
            raise ValueError(f"a joint table has shape [V]*N, not {tuple(log_joint.shape)}")
        log_joint = log_joint.double()
        total = torch.logsumexp(log_joint.flatten(), 0)
        if not torch.isfinite(total):
            raise ValueError("a joint table needs finite total mass: check it for NaN, +inf or all -inf")
        self.log_joint = log_joint - total
        self.vocab_size = log_joint.shape[0]
        self.length = log_joint.ndim
        self.mask_id = self.vocab_size
        # [V^N, N] every state, in the order of log_joint.flatten()
        self.states = torch.cartesian_prod(*[torch.arange(self.vocab_size)] * self.length).view(-1, self.length)

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q(x_t | observed) for each row, see :class:`anyorder.types.Conditionals`."""
        # Rows repeat often (there are at most (V+1)^N patterns), so each distinct one is worked out once.
        patterns, row = torch.unique(tokens, dim=0, return_inverse=True)
        chunk = max(1, _CELLS // self.states.shape[0])
        log_q = torch.cat([self._all_positions(p) for p in patterns.split(chunk)])  # [P, N, V]
        answer = log_q[row[:, None], positions.clamp(min=0)]  # [B, K, V]
        return answer.masked_fill_((positions < 0)[..., None], -math.log(self.vocab_size))

    def _all_positions(self, patterns: Tensor) -> Tensor:
        """[P, N] patterns -> [P, N, V] log-conditionals at every position."""
        observed = patterns[:, None, :] != self.mask_id
        agrees = ((self.states[None] == patterns[:, None, :]) | ~observed).all(-1)  # [P, V^N]
        weight = torch.where(agrees, self.log_joint.flatten(), -torch.inf)
        top = weight.max(-1, keepdim=True).values
        mass = torch.exp(weight - torch.where(torch.isfinite(top), top, 0.0)).view(-1, *self.log_joint.shape)
        marginals = []
        for t in range(self.length):
            others = [d + 1 for d in range(self.length) if d != t]
            marginals.append(mass.sum(dim=others) if others else mass)
        p = torch.stack(marginals, 1)  # [P, N, V]
        total = p.sum(-1, keepdim=True)
        return torch.where(total > 0, p / total, 1.0 / self.vocab_size).log()

    def log_prob(self, tokens: Tensor) -> Tensor:
        """[B, N] complete texts -> [B] their log-probability under the joint."""
        return self.log_joint[tuple(tokens.unbind(-1))]

    def sample(self, generator: torch.Generator, n: int) -> Tensor:
        """[n, N] exact independent draws."""
        index = torch.multinomial(self.log_joint.flatten().exp(), n, replacement=True, generator=generator)
        return self.states[index]


def random_joint(generator: torch.Generator, vocab_size: int, length: int, concentration: float = 1.0) -> Table:
    """A joint drawn from a symmetric Dirichlet: no structure at all."""
    shape = torch.full((vocab_size**length,), concentration, dtype=torch.float64)
    gamma = torch._standard_gamma(shape, generator=generator)
    return Table(gamma.clamp_min(1e-300).log().view([vocab_size] * length))


def ising(edges: Iterable[tuple[int, int]], length: int, coupling: float, field: float = 0.0) -> Table:
    """Ising model on a graph: p(x) ∝ exp(coupling Σ_(i,j) s_i s_j + field Σ_i s_i), s = 2x - 1."""
    spins = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * length).view(-1, length)
    energy = field * spins.sum(-1)
    for i, j in edges:
        energy = energy + coupling * spins[:, i] * spins[:, j]
    return Table(energy.view([2] * length))


def chain_edges(length: int) -> list[tuple[int, int]]:
    """Neighbours on a line."""
    return list(pairwise(range(length)))


def clique_edges(length: int) -> list[tuple[int, int]]:
    """Every pair."""
    return list(combinations(range(length), 2))


def hidden_markov(initial: Tensor, transition: Tensor, emission: Tensor, length: int) -> Table:
    """A hidden Markov chain: initial [H], transition [H, H], emission [H, V], rows summing to one."""
    initial, transition, emission = initial.double(), transition.double(), emission.double()
    forward = (initial[:, None] * emission).T  # [V, H] over prefixes of length 1
    for _ in range(length - 1):
        forward = torch.einsum("...h,hg,gv->...vg", forward, transition, emission)
    return Table(forward.sum(-1).clamp_min(1e-300).log())
