"""u-PMLM-R's heads for understanding (Liao et al., section 4.3): a label for a text, a span for a question.

They are BERT's, on the encoder of :mod:`anyorder.models.relative`, and keep its shift-invariance: only the distances
between the words count, so padding before a text changes neither its label nor its span.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification
from transformers.models.auto import modeling_auto
from transformers.models.bert.modeling_bert import BertForQuestionAnswering, BertForSequenceClassification

from anyorder.models.relative import Eager, RelativeBertModel
from anyorder.models.relative_config import RelativeBertConfig


def to_the_front(x: Tensor, first: Tensor) -> Tensor:
    """Rows [B, N] turned so that position ``first`` [B] comes to 0; what stood before it goes to the end."""
    n = x.shape[1]
    return x.gather(1, (torch.arange(n, device=x.device) + first[:, None]) % n)


class RelativeBertForSequenceClassification(Eager, BertForSequenceClassification):
    """u-PMLM-R with a label for the whole row, read at its first token that is no padding."""

    config_class = RelativeBertConfig

    def __init__(self, config: RelativeBertConfig) -> None:
        # Past BertForSequenceClassification's own constructor, which would build a plain BERT first.
        super(BertForSequenceClassification, self).__init__(config)
        self.num_labels = int(config.num_labels or 2)
        self.bert = RelativeBertModel(config, add_pooling_layer=True)
        rate = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(rate)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """BERT's forward. Its pooler looks at position 0, so a row padded on the left is turned to begin there."""
        if input_ids is not None and attention_mask is not None and attention_mask.ndim == 2:
            first = attention_mask.int().argmax(1)
            if bool(first.any()):
                input_ids, attention_mask = to_the_front(input_ids, first), to_the_front(attention_mask, first)
                token_type_ids = None if token_type_ids is None else to_the_front(token_type_ids, first)
        return super().forward(input_ids, attention_mask, token_type_ids, **kwargs)


class RelativeBertForQuestionAnswering(Eager, BertForQuestionAnswering):
    """u-PMLM-R with the logits of a span's start and end at every token."""

    config_class = RelativeBertConfig

    def __init__(self, config: RelativeBertConfig) -> None:
        super(BertForQuestionAnswering, self).__init__(config)  # as above
        self.num_labels = int(config.num_labels or 2)
        self.bert = RelativeBertModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()


AutoModelForSequenceClassification.register(RelativeBertConfig, RelativeBertForSequenceClassification, exist_ok=True)
AutoModelForQuestionAnswering.register(RelativeBertConfig, RelativeBertForQuestionAnswering, exist_ok=True)
# transformers' text-classification pipeline asks this list of names, and not the registry, whether it knows a model.
modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES[RelativeBertConfig.model_type] = (
    RelativeBertForSequenceClassification.__name__
)
