"""Any checkpoint with a new head: a label for a text, or a span for a question, by transformers' Auto classes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anyorder.errors import AnyorderError
from anyorder.models.fit import max_length, read_tokenizer, readable
from anyorder.models.load import check_positions, locate, quiet
from anyorder.models.safe import check_weights, read_config, read_weights

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


class WithHead(NamedTuple):
    """A model ready to be fine-tuned."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int  # tokens of one row, special ones included


def read_classifier(name_or_path: str | os.PathLike[str] | None, labels: Sequence[str]) -> WithHead:
    """A checkpoint with a head over ``labels``; without labels its one output is a number (regression).

    A head that the checkpoint holds is kept where it fits. A new one begins with random weights from torch's global
    generator, as transformers draws them.
    """
    from transformers import AutoModelForSequenceClassification

    changes: dict[str, Any] = {"num_labels": 1, "problem_type": "regression"}
    if labels:
        changes = {"num_labels": len(labels), "problem_type": "single_label_classification"}
        changes |= {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    return _read(name_or_path, AutoModelForSequenceClassification, changes)


def read_answerer(name_or_path: str | os.PathLike[str] | None) -> WithHead:
    """A checkpoint with a head for the start and the end of an answer."""
    from transformers import AutoModelForQuestionAnswering

    return _read(name_or_path, AutoModelForQuestionAnswering, {"num_labels": 2})


def _read(name_or_path: str | os.PathLike[str] | None, auto: Any, changes: dict[str, Any]) -> WithHead:
    import torch

    path, name = locate(name_or_path)
    with quiet():
        tokenizer = read_tokenizer(path, name, trust_remote_code=False)
        with readable(name):
            config = read_config(path, name, **changes)
            if type(config) not in auto._model_mapping:
                raise AnyorderError(
                    f"{name} ({config.model_type}) has no head for this task in transformers: choose an encoder such "
                    "as BERT, u-PMLM or ModernBERT, or XLNet or GPT-2"
                )
            _prepare(config, tokenizer, name)
            model, missing = read_weights(
                auto, path, name, config, dtype=torch.float32, trust_remote_code=False, ignore_mismatched_sizes=True
            )
    _check(model, missing, tokenizer, name)
    # Token types where the model has them: what the tokenizer gives is what a pipeline passes on.
    types = getattr(config, "type_vocab_size", 0) > 1 or config.model_type == "xlnet"
    known = set(inspect.signature(model.forward).parameters) - (set() if types else {"token_type_ids"})
    tokenizer.model_input_names = [one for one in tokenizer.model_input_names if one in known]
    return WithHead(model, tokenizer, max_length(model, tokenizer))


def _prepare(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """What the heads of some families need to find the token they read."""
    check_positions(config, name)
    if tokenizer.pad_token_id is None:  # GPT-2
        if tokenizer.eos_token is None:
            raise AnyorderError(f"the tokenizer of {name} has no padding token: set tokenizer.pad_token and save it")
        tokenizer.pad_token = tokenizer.eos_token
    if config.pad_token_id is None or config.pad_token_id >= config.vocab_size:
        config.pad_token_id = tokenizer.pad_token_id
    if config.model_type == "xlnet" and tokenizer("a")["input_ids"][0] == tokenizer.cls_token_id:
        # XLNet's own tokenizer ends a row in [CLS] and pads before it; ours begins with it.
        config.summary_type = "first"


def _check(model: Any, missing: Sequence[str], tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    backbone = model.base_model_prefix + "."
    lost = [key for key in missing if key.startswith(backbone) and ".pooler." not in key]
    check_weights(model, name, lost)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        raise AnyorderError(f"{name}: its tokenizer knows more tokens than the model: save the one it was trained with")
