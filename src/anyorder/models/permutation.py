"""XLNet's permutation masks (Yang et al. 2019, section 2.2): which token may see which along an order.

Each token has a rank: -1 if it is given, else its place in the order. A token sees what is given and what comes before
it; log q(x_σt | given, x_σ<t) of every t is then one pass through transformers' XLNet, whose query stream stands at the
positions asked for and sees everything its token sees but the token itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anyorder.errors import AnyorderError

GIVEN = -1


def permutation_mask(rank: Tensor) -> Tensor:
    """Ranks [B, N] -> [B, N, N], true where token i may not see token j.

    transformers lets the content stream see the token itself in any case, and the query stream never.
    """
    later = rank[:, None, :] >= rank[:, :, None]
    return later & (rank[:, None, :] != GIVEN)


def target_mapping(targets: Tensor) -> tuple[Tensor, Tensor]:
    """Where the queries stand: targets [B, N] bool -> one-hot [B, M, N] and which of them are real, [B, M]."""
    count = targets.sum(1)
    order = targets.int().argsort(dim=1, descending=True, stable=True)[:, : int(count.max().clamp(min=1))]  # [B, M]
    real = torch.arange(order.shape[1], device=targets.device) < count[:, None]
    return torch.nn.functional.one_hot(order, targets.shape[1]) * real[..., None], real


def permutation_logits(model: Any, tokens: Tensor, attention_mask: Tensor, rank: Tensor, targets: Tensor) -> Tensor:
    """Logits [targets, V] of the tokens asked for, row by row, each from what comes before it along the order.

    Args:
        model: transformers' ``XLNetLMHeadModel``.
        tokens: [B, N].
        attention_mask: [B, N], 0 at padding.
        rank: [B, N], ``GIVEN`` or the place in the order.
        targets: [B, N] bool.
    """
    if not bool(((rank == GIVEN) & (attention_mask > 0)).any(1).all()):
        # its softmax over nothing would be one over everything, the answer included
        raise AnyorderError("XLNet cannot predict from nothing: keep a given token, such as [CLS], in every row")
    mapping, real = target_mapping(targets)
    masks = {"perm_mask": permutation_mask(rank), "target_mapping": mapping, "attention_mask": attention_mask}
    hidden = model.transformer(input_ids=tokens, **{k: v.to(model.dtype) for k, v in masks.items()})[0]
    return model.lm_loss(hidden[real])
