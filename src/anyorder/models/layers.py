"""A model's layers taken apart at their attention: who sees whom is for ``ordered.py`` and ``memory.py`` to say.

Each family says how a token is embedded at its position, what a layer projects it to, how queries look at keys, and
what the layer makes of the answer. The modules are the model's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout, scaled_dot_product_attention, softmax

from anyorder.models.fit import position_tables


class Scene(NamedTuple):
    """Queries at M positions that look at keys at S positions, as all layers of one kind see it."""

    mask: Tensor | None  # [1 or b, 1, M, S], added to the scores; None: everyone sees everyone
    distances: Any = None  # how far they are apart, for families that ask for it


Scenes = dict[str, Scene]  # for each kind of layer; families with one kind only call it FULL
FULL = "full_attention"


class BertLayers:
    """BERT, RoBERTa and their kind: positions are added to the embeddings."""

    def __init__(self, model: Any) -> None:
        backbone = model.base_model
        self.embeddings, self.layers = backbone.embeddings, list(backbone.encoder.layer)

    def embed(self, ids: Tensor, at: Tensor, types: Tensor | None = None) -> Tensor:
        """Tokens with position ids ``at`` and perhaps token types, all [b, M] -> [b, M, H]."""
        return self.embeddings(input_ids=ids, position_ids=at, token_type_ids=types)

    def angles(self, at: Tensor, dtype: torch.dtype) -> Any:
        """What projections at positions ``at`` [b, M] are rotated by."""
        return None

    def scenes(self, at: Tensor, keys_at: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Scenes:
        """Queries at ``at`` [b, M] that see those keys at ``keys_at`` [b, S] which are ``visible`` [1 or b, M, S]."""
        return {FULL: Scene(_mask(visible, dtype))}

    def project(self, layer: Any, hidden: Tensor, angles: Any) -> tuple[Tensor, ...]:
        """Queries, keys and values [b, M, heads, d] of hidden states [b, M, H]."""
        attention = layer.attention.self
        linears = (attention.query, attention.key, attention.value)
        return tuple(linear(hidden).unflatten(-1, (-1, attention.attention_head_size)) for linear in linears)

    def look(self, layer: Any, scenes: Scenes) -> tuple[Tensor | None, float]:
        """The mask by which the layer looks, and the dropout of its attention."""
        return scenes[FULL].mask, layer.attention.self.dropout.p if layer.training else 0.0

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scenes: Scenes) -> Tensor:
        """The last m of the scene's queries, [b, heads, m, d], look at keys and values [b, heads, S, d]."""
        mask, p = self.look(layer, scenes)
        return scaled_dot_product_attention(query, key, value, _last(mask, query), p)

    def attend_own(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, own: Own, scenes: Scenes) -> Tensor:
        """The same, and each query looks at its own key and value as well."""
        return _attend_own(query, key, value, own, *self.look(layer, scenes))

    def finish(self, layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:
        """What the layer makes of hidden states [..., H] and of what they attended to, [..., H]."""
        return layer.feed_forward_chunk(layer.attention.output(attended, hidden))

    def end(self, hidden: Tensor) -> Tensor:
        """What follows the last layer."""
        return hidden


class RelativeLayers(BertLayers):
    """u-PMLM-R: positions are distances, on keys and values (``relative.py``)."""

    def scenes(self, at: Tensor, keys_at: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Scenes:
        """As BERT's, and the distance of each pair, which is the same in every layer."""
        return {FULL: Scene(_mask(visible, dtype), self.layers[0].attention.self.distances(at, keys_at))}

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scenes: Scenes) -> Tensor:
        """Shaw et al. (2018), equations 3 and 4."""
        mask, distances = (_last(part, query) for part in scenes[FULL])
        return layer.attention.self.attend(query, key, value, mask, distances)

    def attend_own(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, own: Own, scenes: Scenes) -> Tensor:
        """The same; a query's own key and value are at distance 0."""
        return layer.attention.self.attend(query, key, value, *scenes[FULL], own)


class ModernBertLayers(BertLayers):
    """ModernBERT: positions rotate queries and keys, and local layers look no further than their window."""

    def __init__(self, model: Any) -> None:
        from anyorder.models import modernbert  # transformers' ModernBERT takes a while to import

        self.faster, self.backbone, self.config = modernbert, model.base_model, model.config
        self.layers = list(self.backbone.layers)
        self.order = modernbert.interleaved(self.layers[0].attn)  # of every layer

    def embed(self, ids: Tensor, at: Tensor, types: Tensor | None = None) -> Tensor:
        """Tokens [b, M] -> [b, M, H]."""
        return self.backbone.embeddings(input_ids=ids)

    def angles(self, at: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        """For each kind of layer, what projections at positions ``at`` [b, M] are rotated by."""
        like = torch.empty(0, dtype=dtype, device=at.device)
        kinds = set(self.config.layer_types)
        return {kind: self.faster.angle_of(*self.backbone.rotary_emb(like, at, kind)) for kind in kinds}

    def scenes(self, at: Tensor, keys_at: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Scenes:
        """As BERT's; local layers see only what is near."""
        scenes = {}
        for kind in set(self.config.layer_types):
            seen = visible
            if kind == "sliding_attention":
                near = (at[:, :, None] - keys_at[:, None, :]).abs() <= self.config.sliding_window
                seen = near if visible is None else near & visible
            scenes[kind] = Scene(_mask(seen, dtype))
        return scenes

    def project(self, layer: Any, hidden: Tensor, angles: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """Queries, keys and values [b, M, heads, d], rotated by their positions."""
        angle, order = angles[layer.attention_type], self.order.to(hidden.device)
        return self.faster.rotated_projections(layer.attn, layer.attn_norm(hidden), order, angle)

    def look(self, layer: Any, scenes: Scenes) -> tuple[Tensor | None, float]:
        """As BERT's, by the kind of the layer."""
        return scenes[layer.attention_type].mask, layer.attn.attention_dropout if layer.training else 0.0

    def finish(self, layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:
        """What the layer makes of hidden states [..., H] and of what they attended to, [..., H]."""
        out = hidden + layer.attn.out_drop(layer.attn.Wo(attended))
        return out + self.faster.feed_forward(layer.mlp, layer.mlp_norm(out))

    def end(self, hidden: Tensor) -> Tensor:
        """The final norm."""
        return self.backbone.final_norm(hidden)


Own = tuple[Tensor, Tensor]  # each query's own key and value, [b, heads, M, d]


def _attend_own(query: Tensor, key: Tensor, value: Tensor, own: Own, mask: Tensor | None, p: float) -> Tensor:
    scale = query.shape[-1] ** -0.5
    others = query @ key.transpose(-1, -2) * scale
    if mask is not None:
        others = others + mask
    itself = (query * own[0]).sum(-1, keepdim=True) * scale
    weights = dropout(softmax(torch.cat([others, itself], -1), -1), p, training=p > 0)
    return weights[..., :-1] @ value + weights[..., -1:] * own[1]


def layers_of(model: Any) -> BertLayers:
    """The layers of ``model``, by its family."""
    families = {"modernbert": ModernBertLayers, "anyorder-relative-bert": RelativeLayers}
    return families.get(model.config.model_type, BertLayers)(model)


def first_position(model: Any) -> int | None:
    """The position id of a text's first token.

    None without a table of positions: rotary and relative ones know only distances, and these are right in any row.
    """
    return next((first for _, _, first in position_tables(model)), None)


def _mask(visible: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """``visible`` [1 or b, M, S] as a mask to add to scores: 0, or next to the smallest number."""
    if visible is None:
        return None
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    # Half of the smallest: it stays finite where autocast rounds it.
    return mask.masked_fill_(~visible, torch.finfo(dtype).min / 2)[:, None]


def _last(part: Tensor | None, query: Tensor) -> Tensor | None:
    """The rows of a mask or of distances [..., M, S] that belong to the last queries, [..., m, d]."""
    return None if part is None else part[..., part.shape[-2] - query.shape[-2] :, :]
