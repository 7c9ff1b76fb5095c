"""Models that go one way through a text, from a checkpoint: GPT from left to right, XLNet along an order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from anyorder.errors import AnyorderError
from anyorder.models.fit import readable
from anyorder.models.load import locate, quiet
from anyorder.models.safe import check_weights, read_config, read_weights

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


def read_one_way(name_or_path: str | os.PathLike[str], objective: str) -> PreTrainedModel:
    """The model of a checkpoint in float32, to be trained on ``objective``: ``causal`` or ``permutation``.

    Raises:
        AnyorderError: the checkpoint is missing, damaged, or of a model that this objective does not fit.
    """
    import torch
    from transformers import AutoModelForCausalLM

    path, name = locate(name_or_path)
    with quiet():
        config = read_config(path, name)
        check_objective(config, objective, name)
        with readable(f"the weights of {name}"):
            model, lost = read_weights(
                AutoModelForCausalLM, path, name, config, dtype=torch.float32, trust_remote_code=False
            )
    check_weights(model, name, lost)
    if objective == "causal" and not hasattr(model, "lm_head"):
        raise AnyorderError(f"{name} ({config.model_type}) has no head that is known: choose GPT-2 or one of its kind")
    return model


def check_objective(config: PreTrainedConfig, objective: str, name: str) -> None:
    """Refuse what would see the words it is to predict."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    if objective == "permutation":
        if config.model_type != "xlnet":
            raise AnyorderError(
                f"objective.name: permutation trains XLNet, and {name} is {config.model_type}: change one of the two"
            )
        return
    # transformers offers a causal head for masked models too, which go on seeing what follows.
    both_ways = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)
    if both_ways or config.model_type == "xlnet" or type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise AnyorderError(
            f"objective.name: causal trains models that read from left to right, and {name} ({config.model_type}) does "
            "not: choose GPT-2 or one of its kind, or another objective"
        )
