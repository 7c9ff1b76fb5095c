"""XLNet as a comparator: log-probabilities along any order, exact, in one pass per order (Yang et al. 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.models.permutation import GIVEN, permutation_logits
from anyorder.studies.causal import few_at_once, read_config

if TYPE_CHECKING:
    from pathlib import Path


def is_permutation(path: str | Path, trust_remote_code: bool = False) -> bool:
    """Whether a checkpoint is an XLNet, by its configuration alone."""
    return bool(read_config(path, trust_remote_code).model_type == "xlnet")


@torch.inference_mode()
def permutation_terms(model: Any, tokens: Tensor, free: Tensor, rank: Tensor, pad_id: int | None) -> Tensor:
    """log q(x_σt | given, x_σ<t) of every free token: the chain rule along σ, all terms of a text in one pass.

    Args:
        model: transformers' ``XLNetLMHeadModel``.
        tokens: [B, N]; at least one token of each row is given.
        free: [B, N] bool, the positions to score.
        rank: [B, N] when each free position is predicted, as of :func:`anyorder.scoring.chain.chain`.
        pad_id: What is not attended to; None attends to everything.

    Returns:
        [B, N] float64, 0 where nothing is asked.
    """
    answer = torch.zeros(tokens.shape, dtype=torch.float64)
    for part, x, attention in few_at_once(model, tokens, pad_id):
        asked = free[part].to(model.device)
        order = rank[part].to(model.device).masked_fill(~asked, GIVEN)
        logits = permutation_logits(model, x, attention, order, asked)  # [asked, V], row by row
        of_token = logits.float().log_softmax(-1).gather(-1, x[asked][:, None])[:, 0]
        answer[part] = torch.zeros_like(answer[part]).masked_scatter(free[part], of_token.double().cpu())
    return answer
