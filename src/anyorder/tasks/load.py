"""What was read from a checkpoint, as a language model."""

from __future__ import annotations

from anyorder.conditionals.mlm import TOKEN_BUDGET, ModelConditionals
from anyorder.models.load import Loaded
from anyorder.tasks.lm import MaskedLM


def facade(read: Loaded, token_budget: int | None = None) -> MaskedLM:
    """The facade of a model that was read; ``token_budget`` is the tokens of one micro-batch."""
    conditionals = ModelConditionals(
        read.model,
        mask_id=read.mask_id,
        pad_id=read.pad_id,
        max_length=read.max_length,
        token_budget=token_budget or TOKEN_BUDGET,
    )
    return MaskedLM(read.model, read.tokenizer, conditionals, read.name, read.max_length)
