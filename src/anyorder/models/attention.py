"""Attention between positions: a cheap stand-in for their dependence, one pass per text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.models.pairs import token_types, typed_by

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def attention_of(model: PreTrainedModel, tokens: Tensor) -> Tensor | None:
    """[B, N, N] attention in ``tokens`` [B, N], averaged over layers and heads, either way; None if not shown."""
    mean = directed_attention(model, tokens)
    return None if mean is None else torch.maximum(mean, mean.transpose(1, 2))


def directed_attention(model: PreTrainedModel, tokens: Tensor, pad_id: int | None = None) -> Tensor | None:
    """[B, N, N] how much each token (row) attends to each other (column), averaged over layers and heads."""
    inputs = {"input_ids": tokens.to(model.device)}
    if pad_id is not None:
        inputs["attention_mask"] = (inputs["input_ids"] != pad_id).long()
    closing = typed_by(model)
    if closing is not None:
        inputs["token_type_ids"] = token_types(inputs["input_ids"], closing)
    usual = model.config._attn_implementation
    try:
        # Fused kernels never hold the weights; only the plain one can show them.
        model.set_attn_implementation("eager")
        with torch.inference_mode():
            found = model(**inputs, output_attentions=True).attentions
    except (ValueError, NotImplementedError, KeyError):
        return None
    finally:
        model.set_attn_implementation(usual)
    if not found or any(layer is None for layer in found):
        return None
    return torch.stack([layer.float().mean(1) for layer in found]).mean(0).to(tokens.device)


def attention_influence(
    model: PreTrainedModel, mask_id: int, pad_id: int | None = None, source: bool = False
) -> Callable[[Tensor, Tensor], tuple[Tensor, int]]:
    """The ``influence`` of :func:`anyorder.samplers.adaptive.adaptive` by attention between the masked positions.

    The strongest pair of a text counts as 1, for attention has no scale of its own: the adaptive sampler's threshold
    then is a share of it. With ``source`` two positions depend on each other as much as they look at the same tokens
    that are given: Σ_s a_is a_js, of a model with a decoder the cross-attention (Li et al. 2024, section 5).
    """

    def influence(tokens: Tensor, free: Tensor) -> tuple[Tensor, int]:
        found = directed_attention(model, tokens.masked_fill(free, mask_id), pad_id)
        if found is None:
            raise AnyorderError(
                f"{type(model).__name__} does not show its attention: measure dependence by tokens instead"
            )
        tiny = torch.finfo(found.dtype).tiny
        if source:
            given = ~free if pad_id is None else ~free & (tokens != pad_id)
            seen = found * given[:, None, :]
            seen = seen / seen.sum(-1, keepdim=True).clamp(min=tiny)
            found = seen @ seen.transpose(1, 2)
        pairs = free[:, :, None] & free[:, None, :]
        pairs &= ~torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
        found = torch.where(pairs, torch.maximum(found, found.transpose(1, 2)), 0.0)
        return found / found.amax((1, 2), keepdim=True).clamp(min=tiny), len(tokens)

    return influence
