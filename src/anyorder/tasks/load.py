"""A checkpoint as a language model: what :func:`anyorder.load` does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from anyorder.conditionals.mlm import TOKEN_BUDGET, ModelConditionals
from anyorder.models.load import read_checkpoint
from anyorder.tasks.lm import MaskedLM

if TYPE_CHECKING:
    import torch


def load(
    name_or_path: str | os.PathLike[str] | None = None,
    *,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    token_budget: int | None = None,
) -> MaskedLM:
    """Load a masked LM as a language model; see :func:`anyorder.load`."""
    read = read_checkpoint(
        name_or_path, allow_pickle=allow_pickle, trust_remote_code=trust_remote_code, device=device, dtype=dtype
    )
    conditionals = ModelConditionals(
        read.model,
        mask_id=read.mask_id,
        pad_id=read.pad_id,
        max_length=read.max_length,
        token_budget=token_budget or TOKEN_BUDGET,
    )
    return MaskedLM(read.model, read.tokenizer, conditionals, read.name, read.max_length)
