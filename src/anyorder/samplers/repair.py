"""Repair of stutter: equal neighbours are masked and predicted again, one after the other.

A step that fills neighbours side by side writes "the the" where either place alone deserved a "the" (Li et al. 2024,
remark 1). Once one of the two stands, the other's conditional knows of it; a repeat that the model then still wants
("had had") comes back.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.samplers.any_order import any_order
from anyorder.samplers.draw import Warper, place
from anyorder.samplers.run import stream
from anyorder.types import Conditionals, Randomness


class Repaired(NamedTuple):
    """Texts without the repeats that their neighbours did not know of."""

    tokens: Tensor  # [B, N]
    log_prob: Tensor  # [B, N] float64, log q of each token predicted again, NaN elsewhere
    rows: int  # rows sent through the model


def repeats(tokens: Tensor, free: Tensor) -> Tensor:
    """[B, N] bool: free tokens that are equal to a neighbour, free or given."""
    equal = tokens[:, 1:] == tokens[:, :-1]
    none = torch.zeros_like(free[:, :1])
    return free & (torch.cat([none, equal], 1) | torch.cat([equal, none], 1))


def repair(
    conditionals: Conditionals,
    tokens: Tensor,
    free: Tensor,
    *,
    generator: Randomness,
    rounds: int = 1,
    warper: Warper | None = None,
) -> Repaired:
    """Up to ``rounds`` times mask every repeat of ``tokens`` [B, N] and predict it again, the surest first.

    Args:
        conditionals: The model.
        tokens: [B, N] whole texts.
        free: [B, N] bool, what may change.
        generator: Of every draw.
        rounds: How often; it ends where nothing repeats.
        warper: Temperature, top-k and the like.
    """
    sampler = any_order(conditionals, order="confidence", warper=warper)
    log_prob = torch.full(tokens.shape, torch.nan, dtype=torch.float64, device=tokens.device)
    rows = 0
    for _ in range(rounds):
        again = repeats(tokens, free)
        if not bool(again.any()):
            break
        for state, info in stream(sampler, tokens, again, generator=generator):
            tokens = state.tokens
            log_prob = place(log_prob, info.positions, info.log_prob)
            rows += info.rows
    return Repaired(tokens, log_prob, rows)
