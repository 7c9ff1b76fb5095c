"""Masked-diffusion checkpoints, which bring their own code: LLaDA's kind, Dream's, MDLM's."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from anyorder.models.wrapped import Wrapped

# LLaDA and Dream are bidirectional, whatever the name of the Auto class they hang behind.
_AUTO = ("AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModel")
# Code written for another version of transformers fails in any of these ways.
REMOTE_ERRORS = (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError, ImportError)
# Made from causal models, whose logits stand where the token before the one they answer for is.
_SHIFTED = ("DreamModel",)


def remote_reference(config: PreTrainedConfig) -> str | None:
    """Where ``auto_map`` says the model's class is; None if it brings none."""
    code = getattr(config, "auto_map", None) or {}
    return next((str(code[name]) for name in _AUTO if name in code), None)


def remote_class(path: str, config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """The class of a checkpoint that brings its own, fit for this transformers; None if it brings none."""
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    reference = remote_reference(config)
    if reference is None:
        return None
    try:
        found: Any = get_class_from_dynamic_module(reference, path)
    except REMOTE_ERRORS as error:
        raise AnyorderError(f"the code that comes with {path} cannot be imported: {error}".splitlines()[0]) from error
    # Classes written for transformers 4 tie weights without arguments, and some never call post_init.
    if not hasattr(found, "all_tied_weights_keys"):
        found.all_tied_weights_keys = {}
    if not inspect.signature(found.tie_weights).parameters.keys() & {"missing_keys", "kwargs"}:
        old = found.tie_weights
        found.tie_weights = functools.wraps(old)(lambda self, *_, **__: old(self))
    return found


def wrap_remote(model: PreTrainedModel, mask_id: int, longest: int, name: str) -> Wrapped:
    """``model`` as a masked LM; one that reads from left to right is refused."""
    import torch

    from anyorder.models.wrapped import Wrapped

    shift = int(any(known in (model.config.architectures or [type(model).__name__]) for known in _SHIFTED))
    try:
        wrapped = Wrapped(model, mask_id=mask_id, shift=shift, probe=min(8, longest)).eval()
        rows = torch.full((2, min(8, longest)), mask_id, device=wrapped.device)
        rows[1, -1] = 0 if mask_id else 1
        with torch.inference_mode():
            answers = wrapped(rows).logits[:, :-1]
    except REMOTE_ERRORS as error:
        raise AnyorderError(f"the code that comes with {name} fails: {type(error).__name__}: {error}") from error
    if torch.equal(answers[0], answers[1]):
        raise AnyorderError(
            f"{name} reads from left to right: what stands later changes none of its answers. Choose a masked LM or a "
            "masked-diffusion model"
        )
    return wrapped
