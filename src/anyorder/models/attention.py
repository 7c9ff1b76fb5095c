"""Attention between positions: a cheap stand-in for their dependence, one pass per text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def attention_of(model: PreTrainedModel, tokens: Tensor) -> Tensor | None:
    """[B, N, N] attention in ``tokens`` [B, N], averaged over layers and heads, the larger way; None if not shown."""
    usual = model.config._attn_implementation
    try:
        # Fused kernels never hold the weights; only the plain one can show them.
        model.set_attn_implementation("eager")
        with torch.inference_mode():
            found = model(input_ids=tokens.to(model.device), output_attentions=True).attentions
    except (ValueError, NotImplementedError, KeyError):
        return None
    finally:
        model.set_attn_implementation(usual)
    if not found or any(layer is None for layer in found):
        return None
    mean = torch.stack([layer.float().mean(1) for layer in found]).mean(0).to(tokens.device)
    return torch.maximum(mean, mean.transpose(1, 2))


def attention_influence(model: PreTrainedModel, mask_id: int) -> Callable[[Tensor, Tensor], tuple[Tensor, int]]:
    """The ``influence`` of :func:`anyorder.samplers.adaptive.adaptive` by attention between the masked positions.

    The strongest pair of a text counts as 1, for attention has no scale of its own: the adaptive sampler's threshold
    then is a share of it.
    """

    def influence(tokens: Tensor, free: Tensor) -> tuple[Tensor, int]:
        found = attention_of(model, tokens.masked_fill(free, mask_id))
        if found is None:
            raise AnyorderError(
                f"{type(model).__name__} does not show its attention: measure dependence by tokens instead"
            )
        pairs = free[:, :, None] & free[:, None, :]
        pairs &= ~torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
        found = torch.where(pairs, found, 0.0)
        return found / found.amax((1, 2), keepdim=True).clamp(min=torch.finfo(found.dtype).tiny), len(tokens)

    return influence
