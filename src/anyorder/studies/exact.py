"""Exact worlds and exact distances: what a certificate compares with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.conditionals.table import Table, chain_edges, clique_edges, hidden_markov, ising, random_joint
from anyorder.stats import Estimate, mean_estimate

_FLOORS = 100  # histograms a floor is estimated from


@dataclass(frozen=True)
class CertifiedWorld:
    """A joint small enough to hold, and how long chains need to forget where they started in it."""

    name: str
    table: Table
    gibbs_steps: int  # single-site Gibbs from one state is within 0.002 of stationarity after this many
    metropolis_steps: int  # the same for Metropolis and the MRF joint it targets
    strong: bool  # strongly coupled, with structure or without


def worlds() -> list[CertifiedWorld]:
    """A joint without structure, an Ising chain weak and strong, an Ising clique, a hidden Markov chain.

    The small field makes the state chains are started from (all zeros) the less probable of the two Ising phases.
    """
    # Fixed, whatever the seed of the draws: how long chains must run is known for these tables.
    generator = torch.Generator().manual_seed(0)
    initial = torch.tensor([0.5, 0.3, 0.2])
    transition = torch.tensor([[0.80, 0.15, 0.05], [0.10, 0.80, 0.10], [0.05, 0.15, 0.80]])
    emission = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    return [
        CertifiedWorld("random joint", random_joint(generator, 3, 4, concentration=2.0), 100, 500, False),
        CertifiedWorld("Ising chain, weak", ising(chain_edges(6), 6, 0.3, 0.1), 100, 200, False),
        CertifiedWorld("Ising chain, strong", ising(chain_edges(6), 6, 1.0, 0.1), 500, 1000, True),
        CertifiedWorld("Ising clique", ising(clique_edges(5), 5, 0.35, 0.1), 400, 900, True),
        CertifiedWorld("hidden Markov", hidden_markov(initial, transition, emission, 4), 100, 200, False),
    ]


class Lookup:
    """``table``'s conditionals for all (V+1)^N patterns of tokens and masks, worked out once and then looked up.

    A certificate asks the same few hundred questions some million times.
    """

    pad_id: int | None = None

    def __init__(self, table: Table) -> None:
        self.vocab_size, self.mask_id = table.vocab_size, table.mask_id
        base, length = table.vocab_size + 1, table.length
        patterns = torch.cartesian_prod(*[torch.arange(base)] * length).view(-1, length)
        everywhere = torch.arange(length).expand(len(patterns), -1)
        self._answers = table(patterns, everywhere).flatten(0, 1)  # [(V+1)^N * N, V]
        self._weights = base ** torch.arange(length - 1, -1, -1)
        self._length = length

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q, [B, K, V]; see :class:`anyorder.types.Conditionals`."""
        pattern = (tokens * self._weights).sum(1, keepdim=True)  # [B, 1]
        answer = self._answers[pattern * self._length + positions.clamp(min=0)]
        uniform = -torch.tensor(float(self.vocab_size)).log().to(answer)
        return torch.where((positions >= 0)[..., None], answer, uniform)


def mrf_joint(table: Table) -> Table:
    """The MRF joint p(x) ∝ exp Σ_t log q(x_t | x_-t) over all positions (eq 2 of Torroba Hennigen & Kim 2023)."""
    states = table.states
    total = torch.zeros(len(states), dtype=torch.float64)
    for t in range(table.length):
        masked = states.clone()
        masked[:, t] = table.mask_id
        log_q = table(masked, torch.full((len(states), 1), t))[:, 0]
        total += log_q.gather(1, states[:, t : t + 1]).squeeze(1)
    return Table(total.view(table.log_joint.shape))


def total_variation(p: Table, q: Table) -> float:
    """½ Σ_x |p(x) - q(x)|."""
    return float((p.log_joint.exp() - q.log_joint.exp()).abs().sum() / 2)


def empirical_tv(table: Table, texts: Tensor, repeats: int) -> Estimate:
    """Mean total variation between ``table`` and the histograms of ``repeats`` equal parts of ``texts`` [R*n, N]."""
    base, length = table.vocab_size, table.length
    state = (texts * base ** torch.arange(length - 1, -1, -1)).sum(1).view(repeats, -1)  # [R, n]
    count = torch.stack([part.bincount(minlength=base**length) for part in state]).double()
    tv = (count / state.shape[1] - table.log_joint.exp().flatten()).abs().sum(1) / 2  # [R]
    return mean_estimate(tv)


def floor(table: Table, draws: int, generator: torch.Generator) -> Estimate:
    """The total variation that ``draws`` exact independent draws still show, from nothing but being finitely many."""
    return empirical_tv(table, table.sample(generator, draws * _FLOORS), _FLOORS)
