"""anyorder turns any masked language model into a language model.

>>> import anyorder
>>> lm = anyorder.load()                       # the bundled model; or a Hugging Face name, or a folder
>>> lm.fill("The ___ sat on the ___.")[0].text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError
from anyorder.models.register import register_when_needed

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import torch
    from transformers import PreTrainedTokenizerBase

    from anyorder.tasks.lm import MaskedLM

__version__ = "0.2.0"
__all__ = ["AnyorderError", "MaskedLM", "load", "wrap"]

register_when_needed()  # AutoModelForMaskedLM knows our architectures from here on; transformers is not imported yet


def load(
    name_or_path: str | os.PathLike[str] | None = None,
    *,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    token_budget: int | None = None,
) -> MaskedLM:
    """Load a masked LM as a language model.

    Args:
        name_or_path: A Hugging Face name or a folder; None is the bundled model.
        allow_pickle: Also read ``.bin`` checkpoints. Only for files you trust.
        trust_remote_code: Run code that comes with the checkpoint. Only for authors you trust.
        device: Where the model goes; the CPU if None.
        dtype: Of the weights; float32 if None, whatever the file holds, since scores and joints need it.
        token_budget: Tokens of one micro-batch, see :class:`anyorder.conditionals.ModelConditionals`.

    Raises:
        AnyorderError: The checkpoint is missing, damaged, or not a masked LM.
    """
    # Imported here so that `import anyorder` and `anyorder --help` stay cheap.
    from anyorder.models.load import read_checkpoint
    from anyorder.tasks.load import facade

    read = read_checkpoint(
        name_or_path, allow_pickle=allow_pickle, trust_remote_code=trust_remote_code, device=device, dtype=dtype
    )
    return facade(read, token_budget)


def wrap(
    model: Callable[..., Any],
    tokenizer: PreTrainedTokenizerBase,
    *,
    mask_id: int | None = None,
    logits: Callable[[Any], torch.Tensor] | None = None,
    shift: int = 0,
    max_length: int | None = None,
) -> MaskedLM:
    """Make a language model of a model that is already in memory.

    >>> lm = anyorder.wrap(lambda tokens: my_network(tokens), tokenizer, mask_id=103, max_length=512)

    Args:
        model: A masked LM of transformers, any other module, or any function from tokens [rows, N] to logits
            [rows, N, V]. Modules are put in eval mode. Rows of one call have one length, except with families known
            not to mind.
        tokenizer: The one it was trained with.
        mask_id: The id of the mask token; None: what the tokenizer or the model's configuration says.
        logits: Finds the logits in what the model returns, if they are neither that itself nor its ``logits``.
        shift: 1 if the logits at a position answer for the next one, as Dream's do.
        max_length: Tokens of the longest row; None: what the model and its tokenizer say.

    Raises:
        AnyorderError: There is no mask token, or the tokenizer does not fit the model.
    """
    from anyorder.tasks.load import facade, in_memory

    return facade(in_memory(model, tokenizer, mask_id, logits, shift, max_length))


def __getattr__(name: str) -> Any:
    if name == "MaskedLM":
        from anyorder.tasks.lm import MaskedLM

        return MaskedLM
    raise AttributeError(f"module 'anyorder' has no attribute {name!r}")
