"""The configuration of u-PMLM-R, apart from its model: transformers' registry needs one early and the other late."""

from __future__ import annotations

from typing import Any

from transformers.configuration_utils import PreTrainedConfig


class RelativeBertConfig(PreTrainedConfig):
    """BERT with relative positions (Shaw et al., 2018) in place of absolute ones.

    The names are BERT's. ``max_relative_position`` is where distances are clipped; ``max_position_embeddings`` is no
    table's size but the length the model was trained for, which the loader takes as its maximum.
    """

    model_type = "anyorder-relative-bert"

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    max_relative_position: int = 127
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    is_decoder: bool = False
    add_cross_attention: bool = False
    classifier_dropout: float | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        """Register the model classes too: whoever makes a configuration is about to ask for a model."""
        import anyorder.models.relative_heads  # noqa: F401  (it and what it builds on register with the Auto classes)

        super().__post_init__(**kwargs)
