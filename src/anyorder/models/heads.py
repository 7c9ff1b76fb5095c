"""The LM head of each family, applied to gathered hidden states instead of to every position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

Head = Callable[[Any, Tensor], Tensor]  # (the masked LM, hidden [..., H]) -> logits [..., V]


def _cls(model: Any, hidden: Tensor) -> Tensor:
    return model.cls(hidden)


def _lm_head(model: Any, hidden: Tensor) -> Tensor:
    return model.lm_head(hidden)


def _distilbert(model: Any, hidden: Tensor) -> Tensor:
    return model.vocab_projector(model.vocab_layer_norm(model.activation(model.vocab_transform(hidden))))


def _albert(model: Any, hidden: Tensor) -> Tensor:
    return model.predictions(hidden)


def _electra(model: Any, hidden: Tensor) -> Tensor:
    return model.generator_lm_head(model.generator_predictions(hidden))


def _deberta(model: Any, hidden: Tensor) -> Tensor:
    if model.legacy:
        return model.cls(hidden)
    return model.lm_predictions(hidden, model.deberta.embeddings.word_embeddings)


def _modernbert(model: Any, hidden: Tensor) -> Tensor:
    return model.decoder(model.head(hidden))


# Whose code the table below describes: remote code may call itself "bert" and do otherwise.
_KNOWN_CODE = ("transformers", "anyorder")

# Keyed by config.model_type. Every head here works position by position, so gathering before it changes nothing.
_HEADS: dict[str, Head] = {
    "bert": _cls,
    "anyorder-relative-bert": _cls,
    "roberta": _lm_head,
    "xlm-roberta": _lm_head,
    "xlm-roberta-xl": _lm_head,
    "camembert": _lm_head,
    "data2vec-text": _lm_head,
    "roberta-prelayernorm": _lm_head,
    "esm": _lm_head,
    "distilbert": _distilbert,
    "albert": _albert,
    "electra": _electra,
    "deberta": _deberta,
    "deberta-v2": _deberta,
    "modernbert": _modernbert,
}


def is_known_code(model: Any) -> bool:
    """Whether ``model`` is what its ``model_type`` says: transformers' own class, or ours."""
    return type(model).__module__.partition(".")[0] in _KNOWN_CODE


def head_of(model: Any) -> Head | None:
    """The LM head of ``model`` as a function of hidden states; None if its family is not known to split there."""
    if not is_known_code(model):
        return None
    return _HEADS.get(model.config.model_type)
