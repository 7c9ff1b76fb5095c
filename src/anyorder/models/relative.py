"""u-PMLM-R: BERT with relative positions on keys and values (Liao et al., 2020; Shaw et al., 2018, eq 3 and 4).

    e_ij = q_i · (k_j + a^K_{j-i}) / √d        z_i = Σ_j softmax(e)_ij (v_j + a^V_{j-i})

with a^K, a^V learned for each distance j - i clipped to ±127, shared by the heads of a layer, and no absolute
table. Only the attention and the embeddings differ from transformers' BERT; everything else is its code.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, pad, softmax
from transformers import AutoModel, AutoModelForMaskedLM
from transformers.models.bert.modeling_bert import BertForMaskedLM, BertModel, BertOnlyMLMHead, BertSelfAttention

from anyorder.models.relative_config import RelativeBertConfig


def by_pair(x: Tensor) -> Tensor:
    """[..., N, 2N] indexed by (i, distance + N) -> [..., N, N] indexed by (i, j): a view.

    Row i starts at column N - i; read with rows one shorter, every row starts one further left.
    """
    n = x.shape[-2]
    return x.flatten(-2)[..., n:].unflatten(-1, (n, 2 * n - 1))[..., :n]


def by_distance(x: Tensor) -> Tensor:
    """[..., N, N] indexed by (i, j) -> [..., N, 2N] indexed by (i, distance + N), 0 beyond the ends; undoes by_pair."""
    n = x.shape[-1]
    return pad(pad(x, (0, n - 1)).flatten(-2), (n, 0)).unflatten(-1, (n, 2 * n))


class RelativeSelfAttention(BertSelfAttention):
    """Self-attention with Shaw's two tables. Work and memory stay O(N²) per head: no [N, N, d] tensor is ever made."""

    def __init__(self, config: RelativeBertConfig, layer_idx: int | None = None) -> None:
        super().__init__(config, layer_idx=layer_idx)
        self.clip = config.max_relative_position
        self.relative_key = nn.Embedding(2 * self.clip + 1, self.attention_head_size)
        self.relative_value = nn.Embedding(2 * self.clip + 1, self.attention_head_size)

    def forward(  # type: ignore[override]  # BERT lists keywords of fused kernels, which do not apply here
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, past_key_values: None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """[B, N, H] -> [B, N, H] and the attention weights [B, heads, N, N]; ``attention_mask`` is added to e."""
        n = hidden_states.shape[1]
        split = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        linears = (self.query, self.key, self.value)
        q, k, v = (linear(hidden_states).view(split).transpose(1, 2) for linear in linears)  # [B, heads, N, d]
        # Distances -N .. N-1 (the first never occurs: it makes the rows of by_pair even).
        distance = torch.arange(-n, n, device=q.device).clamp(-self.clip, self.clip) + self.clip

        e = q @ k.transpose(-1, -2) + by_pair(q @ self.relative_key(distance).T)
        weights = self._weights(e, attention_mask)
        z = weights @ v + by_distance(weights) @ self.relative_value(distance)
        return z.transpose(1, 2).flatten(-2), weights

    def distances(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Row of either table for each pair of positions [B, M] and [B, S]: [B, 1, M, S]."""
        between = keys[:, None, None, :] - queries[:, None, :, None]
        return between.clamp(-self.clip, self.clip) + self.clip

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        distances: Tensor,
        own: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Queries [B, heads, M, d] and keys and values [B, heads, S, d] that stand anywhere, in any order.

        With ``own``, [B, heads, M, d] each, a query looks at a key and a value of its own as well, at distance 0.
        """
        row = distances.expand(-1, q.shape[1], -1, -1)  # [B, heads, M, S]
        keys, values = self.relative_key.weight, self.relative_value.weight
        e = q @ k.transpose(-1, -2) + (q @ keys.T).gather(-1, row)
        if own is not None:
            e = torch.cat([e, (q * (own[0] + keys[self.clip])).sum(-1, keepdim=True)], -1)
            mask = None if mask is None else pad(mask, (0, 1))
        weights = self._weights(e, mask)
        others = weights[..., : k.shape[-2]]
        by_row = others.new_zeros((*others.shape[:-1], 2 * self.clip + 1)).scatter_add(-1, row, others)
        z = others @ v + by_row @ values
        return z if own is None else z + weights[..., -1:] * (own[1] + values[self.clip])

    def _weights(self, e: Tensor, mask: Tensor | None) -> Tensor:
        e = e * self.scaling
        if mask is not None:
            e = e + mask
        return dropout(softmax(e, -1), self.dropout.p, self.training)


class RelativeEmbeddings(nn.Module):
    """BERT's embeddings without positions."""

    def __init__(self, config: RelativeBertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values_length: int = 0,
    ) -> Tensor:
        """[B, N] tokens -> [B, N, H]; ``position_ids`` are part of BERT's signature and mean nothing here."""
        x = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if token_type_ids is None:
            token_type_ids = torch.zeros(x.shape[:-1], dtype=torch.long, device=x.device)
        return self.dropout(self.LayerNorm(x + self.token_type_embeddings(token_type_ids)))


class Eager:
    """The attention weights are needed in full for the value term, so transformers' fused kernels do not apply."""

    _supports_sdpa = False
    _supports_flash_attn = False
    _supports_flex_attn = False
    _supports_attention_backend = False


class RelativeBertModel(Eager, BertModel):
    """The encoder of u-PMLM-R."""

    config_class = RelativeBertConfig

    def __init__(self, config: RelativeBertConfig, add_pooling_layer: bool = False) -> None:
        super().__init__(config, add_pooling_layer=add_pooling_layer)
        self.embeddings = RelativeEmbeddings(config)
        for i, layer in enumerate(self.encoder.layer):
            layer.attention.self = RelativeSelfAttention(config, layer_idx=i)
        self.post_init()


class RelativeBertForMaskedLM(Eager, BertForMaskedLM):
    """u-PMLM-R with its LM head."""

    config_class = RelativeBertConfig

    def __init__(self, config: RelativeBertConfig) -> None:
        # Past BertForMaskedLM's own constructor, which would build a plain BERT first.
        super(BertForMaskedLM, self).__init__(config)
        self.bert = RelativeBertModel(config)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()


AutoModel.register(RelativeBertConfig, RelativeBertModel, exist_ok=True)
AutoModelForMaskedLM.register(RelativeBertConfig, RelativeBertForMaskedLM, exist_ok=True)
