"""The facade: a masked language model, used as a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from anyorder.types import Conditionals


@dataclass(frozen=True)
class MaskedLM:
    """A model, its tokenizer and its conditionals. Each method is documented where its algorithm lives."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    conditionals: Conditionals
    name: str
    max_length: int  # tokens of one row, special ones included
