"""What was read from a checkpoint, or what is already in memory, as a language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from anyorder.conditionals.mlm import TOKEN_BUDGET, ModelConditionals
from anyorder.errors import AnyorderError
from anyorder.models.fit import check_fit, max_length, rows_of, with_mask
from anyorder.models.heads import is_known_code
from anyorder.models.load import Loaded, padding
from anyorder.models.wrapped import Wrapped
from anyorder.tasks.lm import MaskedLM

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def facade(read: Loaded, token_budget: int | None = None) -> MaskedLM:
    """The facade of a model that was read; ``token_budget`` is the tokens of one micro-batch."""
    conditionals = ModelConditionals(
        read.model,
        mask_id=read.mask_id,
        pad_id=read.pad_id,
        max_length=read.max_length,
        token_budget=token_budget or TOKEN_BUDGET,
    )
    about = (read.name, read.max_length, read.curve, read.length_head)
    return MaskedLM(read.model, read.tokenizer, conditionals, *about)


def in_memory(
    model: Callable[..., Any],
    tokenizer: PreTrainedTokenizerBase,
    mask_id: int | None,
    logits: Callable[[Any], Tensor] | None,
    shift: int,
    longest: int | None,
) -> Loaded:
    """A model object as if it had been read; see :func:`anyorder.wrap`."""
    if not callable(model):
        raise AnyorderError(
            f"{type(model).__name__} is no model: give a module or a function of tokens (a name goes to anyorder.load)"
        )
    config = getattr(model, "config", None)
    name = type(model).__name__ if isinstance(model, nn.Module) else getattr(model, "__name__", "the model")
    if mask_id is None and tokenizer.mask_token_id is None:
        mask_id = getattr(config, "mask_token_id", None)
    tokenizer, mask_id = with_mask(tokenizer, mask_id, name)
    limit = max_length(model, tokenizer)
    limit = limit if longest is None else min(limit, longest)
    if isinstance(model, nn.Module):
        model.eval()
    if not (_is_masked_lm(model) and logits is None and shift == 0):
        model = Wrapped(model, mask_id=mask_id, logits=logits, shift=shift, probe=min(8, limit)).eval()
    rows = model.vocab_size if isinstance(model, Wrapped) else rows_of(model)
    check_fit(tokenizer, mask_id, rows, name)
    ready: Any = model
    return Loaded(ready, tokenizer, name, mask_id, padding(tokenizer, config, mask_id), limit)


def _is_masked_lm(model: Any) -> bool:
    """Whether it is a masked LM of a family that transformers, or this package, knows."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    config: Any = getattr(model, "config", None)
    family: Any = MODEL_FOR_MASKED_LM_MAPPING.get(type(config), ())
    return is_known_code(model) and isinstance(model, family)
