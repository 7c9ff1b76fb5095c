"""A model's layers taken apart at their attention, so that keys and values can be kept (``memory.py``).

Each family says how a token is embedded at its position, what a layer projects it to, how queries look at keys, and
what the layer makes of the answer. The modules are the model's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from anyorder.models.ordered import additive, first_position, within


class Scene(NamedTuple):
    """What all layers of one kind share in a pass."""

    mask: Tensor | None  # [1 or b, 1, M, S] added to the scores of queries and keys; None: everyone sees everyone
    place: Any = None  # where they stand, as the family wants it


Scenes = dict[str, Scene]  # for each kind of layer; families with one kind only call it _ALL
_ALL = "full_attention"


class BertLayers:
    """BERT, RoBERTa and their kind: positions are added to the embeddings."""

    def __init__(self, model: Any) -> None:
        backbone = model.base_model
        self.embeddings, self.layers = backbone.embeddings, list(backbone.encoder.layer)
        self.first = first_position(model) or 0

    def embed(self, ids: Tensor, at: Tensor) -> Tensor:
        """Tokens at positions ``at``, both [b, M] -> [b, M, H]."""
        return self.embeddings(input_ids=ids, position_ids=at + self.first)

    def scenes(self, at: Tensor, keys_at: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Scenes:
        """For queries at ``at`` [b, M] and keys at ``keys_at`` [b, S]: ``visible`` [1 or b, M, S], or None for all."""
        return {_ALL: Scene(_mask(visible, dtype))}

    def project(self, layer: Any, hidden: Tensor, scenes: Scenes) -> tuple[Tensor, ...]:
        """Queries, keys and values [b, M, heads, d] of hidden states [b, M, H]."""
        attention = layer.attention.self
        linears = (attention.query, attention.key, attention.value)
        return tuple(linear(hidden).unflatten(-1, (-1, attention.attention_head_size)) for linear in linears)

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scenes: Scenes) -> Tensor:
        """The last m of the scene's queries, [b, heads, m, d], look at keys and values [b, heads, S, d]."""
        return scaled_dot_product_attention(query, key, value, _last(scenes[_ALL].mask, query))

    def finish(self, layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:
        """What the layer makes of hidden states [b, m, H] and of what they attended to, [b, m, H]."""
        return layer.feed_forward_chunk(layer.attention.output(attended, hidden))

    def end(self, hidden: Tensor) -> Tensor:
        """What follows the last layer."""
        return hidden


class RelativeLayers(BertLayers):
    """u-PMLM-R: positions are distances, on keys and values (``relative.py``)."""

    def scenes(self, at: Tensor, keys_at: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Scenes:
        """As BERT's, and the distance of each pair, which is the same in every layer."""
        return {_ALL: Scene(_mask(visible, dtype), self.layers[0].attention.self.distances(at, keys_at))}

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scenes: Scenes) -> Tensor:
        """Shaw et al. (2018), equations 3 and 4."""
        mask, distances = (_last(part, query) for part in scenes[_ALL])
        return layer.attention.self.attend(query, key, value, mask, distances)[0]


class ModernBertLayers:
    """ModernBERT: positions turn queries and keys, and local layers look no further than their window."""

    def __init__(self, model: Any) -> None:
        from anyorder.models import modernbert  # transformers' ModernBERT takes a while to import

        self.faster, self.backbone, self.config = modernbert, model.base_model, model.config
        self.layers = list(self.backbone.layers)
        self.orders = {layer: modernbert.interleaved(layer.attn) for layer in self.layers}

    def embed(self, ids: Tensor, at: Tensor) -> Tensor:
        """Tokens [b, M] -> [b, M, H]."""
        return self.backbone.embeddings(input_ids=ids)

    def scenes(self, at: Tensor, keys_at: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Scenes:
        """For each kind of layer its mask, and the angles at ``at``."""
        scenes = {}
        for kind in set(self.config.layer_types):
            seen = visible
            if kind == "sliding_attention":
                near = within(at, keys_at, self.config.sliding_window)
                seen = near if visible is None else near & visible
            cos, sin = self.backbone.rotary_emb(torch.empty(0, dtype=dtype, device=at.device), at, kind)
            scenes[kind] = Scene(_mask(seen, dtype), self.faster.angle_of(cos, sin))
        return scenes

    def project(self, layer: Any, hidden: Tensor, scenes: Scenes) -> tuple[Tensor, ...]:
        """Queries, keys and values [b, M, heads, d], turned by their positions."""
        angle, order = scenes[layer.attention_type].place, self.orders[layer].to(hidden.device)
        return self.faster.turned_projections(layer.attn, layer.attn_norm(hidden), order, angle)

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scenes: Scenes) -> Tensor:
        """The last m of the scene's queries, [b, heads, m, d], look at keys and values [b, heads, S, d]."""
        return scaled_dot_product_attention(query, key, value, _last(scenes[layer.attention_type].mask, query))

    def finish(self, layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:
        """What the layer makes of hidden states [b, m, H] and of what they attended to, [b, m, H]."""
        out = hidden + layer.attn.out_drop(layer.attn.Wo(attended))
        return out + self.faster.feed_forward(layer.mlp, layer.mlp_norm(out))

    def end(self, hidden: Tensor) -> Tensor:
        """The final norm."""
        return self.backbone.final_norm(hidden)


def layers_of(model: Any) -> BertLayers | ModernBertLayers:
    """The layers of ``model``, by its family."""
    if model.config.model_type == "modernbert":
        return ModernBertLayers(model)
    return (RelativeLayers if model.config.model_type == "anyorder-relative-bert" else BertLayers)(model)


def _mask(visible: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if visible is None else additive(visible, dtype)[:, None]


def _last(part: Tensor | None, query: Tensor) -> Tensor | None:
    """The rows of a mask or of distances [..., M, S] that belong to the last queries, [..., m, d]."""
    return None if part is None else part[..., part.shape[-2] - query.shape[-2] :, :]
