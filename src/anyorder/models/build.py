"""New models of one size: the paper's two u-PMLMs and what they are compared with (Liao et al., section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError, choose

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

KINDS = ("bert", "relative", "modernbert", "gpt2", "xlnet")


def configure(
    kind: str,
    *,
    vocab_size: int,
    hidden_size: int,
    layers: int,
    heads: int,
    intermediate: int,
    max_length: int,
    pad_id: int,
    cls_id: int | None = None,
    sep_id: int | None = None,
    dropout: float = 0.1,
    **extra: Any,
) -> PreTrainedConfig:
    """The transformers configuration of a new model.

    Args:
        kind: ``bert`` is u-PMLM-A (and BERT: they differ only in the masking), ``relative`` is u-PMLM-R, ``modernbert``
            the faster learner (pre-norm, rotary, gated), ``gpt2`` the left-to-right comparator, ``xlnet`` the one
            trained along random orders.
        vocab_size: tokens of the tokenizer.
        hidden_size: width.
        layers: depth.
        heads: attention heads; they divide the width.
        intermediate: width of the feed-forward. ModernBERT's is gated: it has half as many again weights there.
        max_length: tokens of the longest row, special ones included.
        pad_id: the padding token.
        cls_id: the token that opens a row, if any.
        sep_id: the token that closes it, if any.
        dropout: everywhere the architecture has one.
        extra: passed to the configuration as it is.
    """
    from transformers import BertConfig, GPT2Config, ModernBertConfig, XLNetConfig

    choose(kind, KINDS, "kind of model")
    if hidden_size % heads:
        raise AnyorderError(f"hidden_size {hidden_size} is not a multiple of heads {heads}: change one of them")
    ids: dict[str, Any] = {"pad_token_id": pad_id, "bos_token_id": cls_id, "eos_token_id": sep_id}
    if kind == "xlnet":
        return XLNetConfig(
            vocab_size=vocab_size,
            d_model=hidden_size,
            n_layer=layers,
            n_head=heads,
            d_inner=intermediate,
            dropout=dropout,
            **ids,
            **extra,
        )
    size: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": max_length,
        **ids,
        **extra,
    }
    if kind == "gpt2":
        return GPT2Config(**size, n_inner=intermediate, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout)
    size["intermediate_size"] = intermediate
    if kind == "modernbert":
        return ModernBertConfig(
            **size,
            cls_token_id=cls_id,
            sep_token_id=sep_id,
            # Local attention saves nothing at these lengths: every layer sees the whole row.
            layer_types=["full_attention"] * layers,
            attention_dropout=dropout,
            embedding_dropout=dropout,
            mlp_dropout=dropout,
        )
    size |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if kind == "bert":
        return BertConfig(**size)
    from anyorder.models.relative_config import RelativeBertConfig

    return RelativeBertConfig(**size)


def build(kind: str, *, seed: int = 0, **sizes: Any) -> PreTrainedModel:
    """A new model with random weights, in training mode; ``sizes`` are the arguments of :func:`configure`.

    BERT's absolute positions begin as :mod:`anyorder.models.neighbours` says.

    transformers draws initial weights from torch's global generator; it is seeded here and then restored, so that
    the weights depend on ``seed`` alone.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    from anyorder.models.neighbours import attend_to_neighbours

    config = configure(kind, **sizes)
    auto = AutoModelForCausalLM if kind in ("gpt2", "xlnet") else AutoModelForMaskedLM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = auto.from_config(config).train()
        if kind == "bert":
            attend_to_neighbours(model)
        return model
