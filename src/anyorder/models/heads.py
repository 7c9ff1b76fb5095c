"""The LM head of each family, applied to gathered hidden states instead of to every position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

Head = Callable[[Any, Tensor], Tensor]  # (the masked LM, hidden [..., H]) -> logits [..., V]

# Whose code the table below describes: remote code may call itself "bert" and do otherwise.
_KNOWN_CODE = ("transformers", "anyorder")

# Keyed by config.model_type: the modules that hidden states pass, one after the other. Every head here works position
# by position, so gathering before it changes nothing.
_HEADS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bert", "anyorder-relative-bert"), ("cls",)),
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text", "roberta-prelayernorm", "esm"),
        ("lm_head",),
    ),
    "distilbert": ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),
    "albert": ("predictions",),
    "electra": ("generator_predictions", "generator_lm_head"),
    "modernbert": ("head", "decoder"),
}


def _through(modules: tuple[str, ...], model: Any, hidden: Tensor) -> Tensor:
    for name in modules:
        hidden = getattr(model, name)(hidden)
    return hidden


def _deberta(model: Any, hidden: Tensor) -> Tensor:
    if model.legacy:
        return model.cls(hidden)
    return model.lm_predictions(hidden, model.deberta.embeddings.word_embeddings)


def is_known_code(model: Any) -> bool:
    """Whether ``model`` is what its ``model_type`` says: transformers' own class, or ours."""
    return type(model).__module__.partition(".")[0] in _KNOWN_CODE


def head_of(model: Any) -> Head | None:
    """The LM head of ``model`` as a function of hidden states; None if its family is not known to split there."""
    if not is_known_code(model):
        return None
    family = model.config.model_type
    if family in ("deberta", "deberta-v2"):
        return _deberta
    return partial(_through, _HEADS[family]) if family in _HEADS else None
