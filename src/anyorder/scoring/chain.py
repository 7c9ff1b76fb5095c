"""The chain rule along an order: an exact log-probability, in as many passes as there are tokens, or in one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyorder.scoring.ask import one_by_one
from anyorder.types import Conditionals, Ordered


def chain(conditionals: Conditionals | Ordered, tokens: Tensor, free: Tensor, rank: Tensor) -> Tensor:
    """Σ_t log q(x_σt | x_σ1 … x_σt-1), the bracket of Liao et al.'s eq. 8, as its terms.

    The order σ is given by ranks: position σ_t has rank t. Positions that are not free are observed from the start,
    so a partly free text is scored conditionally on the rest. All steps of all texts are independent questions and
    go through the model together; a model read in order answers all of a text's in one pass.

    Args:
        conditionals: The model, read in full or in order.
        tokens: [B, N] complete texts.
        free: [B, N] bool, the positions to score.
        rank: [B, N] when each free position is predicted; only the comparison of ranks matters.

    Returns:
        [B, N] float64: log q of each free token in its turn, 0 elsewhere.
    """
    if isinstance(conditionals, Ordered):
        return conditionals.chain(tokens, ~free, _order(free, rank))
    return one_by_one(conditionals, tokens, free, lambda b, i: free[b] & (rank[b] >= rank[b, i][:, None]))


def _order(free: Tensor, rank: Tensor) -> Tensor:
    """[B, K] the free positions by rank; rows with fewer end in -1."""
    last = torch.where(free, rank.double(), torch.inf).argsort(dim=1, stable=True)
    count = free.sum(1, keepdim=True)
    return torch.where(torch.arange(free.shape[1]) < count, last, -1)[:, : int(count.max()) if len(count) else 0]


def left_to_right(free: Tensor) -> Tensor:
    """[B, N] ranks of the reading order."""
    return torch.arange(free.shape[1]).expand(free.shape)


def random_ranks(free: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """[B, N] ranks of a uniformly random order of each text, from that text's own generator.

    A text's order is drawn over its free positions only, so neither its neighbours in a batch nor padding change it.
    """
    rank = torch.zeros(free.shape, dtype=torch.long)
    for row, places, generator in zip(rank, free, generators, strict=True):
        row[places] = torch.randperm(int(places.sum()), generator=generator)
    return rank
