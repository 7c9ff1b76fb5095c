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
    from anyorder.lm import MaskedLM

__version__ = "0.1.0"
__all__ = ["AnyorderError", "MaskedLM", "load"]

register_when_needed()  # AutoModelForMaskedLM knows our architectures from here on; transformers is not imported yet


def load(name_or_path: str | None = None, **options: Any) -> MaskedLM:
    """Load a masked LM as a language model; see :func:`anyorder.models.load.load`."""
    # Imported here so that `import anyorder` and `anyorder --help` stay cheap.
    from anyorder.models.load import load as _load

    return _load(name_or_path, **options)


def __getattr__(name: str) -> Any:
    if name == "MaskedLM":
        from anyorder.lm import MaskedLM

        return MaskedLM
    raise AttributeError(f"module 'anyorder' has no attribute {name!r}")
