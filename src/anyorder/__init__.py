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

    import torch

    from anyorder.tasks.lm import MaskedLM

__version__ = "0.1.0"
__all__ = ["AnyorderError", "MaskedLM", "load"]

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


def __getattr__(name: str) -> Any:
    if name == "MaskedLM":
        from anyorder.tasks.lm import MaskedLM

        return MaskedLM
    raise AttributeError(f"module 'anyorder' has no attribute {name!r}")
