"""How a model is read: in full for every token, or in order, each token once (``models/ordered.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyorder.conditionals.ordered import ModelOrdered
from anyorder.errors import AnyorderError, choose
from anyorder.models.ordered import TRAINED
from anyorder.tasks.options import READINGS

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM
    from anyorder.types import Conditionals, Ordered


def ordered_of(lm: MaskedLM, *, untrained: bool = False) -> ModelOrdered:
    """``lm`` read in order; ``untrained``: even if it was not trained for it."""
    ids = lm.conditionals
    return ModelOrdered(lm.model, mask_id=ids.mask_id, pad_id=ids.pad_id, max_length=lm.max_length, untrained=untrained)


def reader(lm: MaskedLM, reading: str, method: str, in_order: bool) -> tuple[Conditionals | Ordered, str]:
    """What to ask, and how it is read: ``full`` or ``ordered``.

    Args:
        lm: The model.
        reading: One of ``READINGS``.
        method: Who asks, for the error message.
        in_order: Whether that method goes token by token, so that it can read in order.
    """
    choose(reading, READINGS, "reading")
    if reading == "auto":
        reading = "ordered" if in_order and getattr(lm.model.config, TRAINED, False) else "full"
    if reading == "full":
        return lm.conditionals, "full"
    if not in_order:
        raise AnyorderError(f"{method} needs the model read in full: leave the reading out, or set it to full")
    return ordered_of(lm, untrained=reading == "ordered-untrained"), "ordered"
