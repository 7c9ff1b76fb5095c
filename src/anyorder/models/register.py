"""Make `import anyorder` enough for AutoModelForMaskedLM to know our architectures, without importing transformers.

transformers has no entry point for third-party architectures, only ``AutoConfig.register``; to call it at once would
make `import anyorder` (and `anyorder --help`) wait for transformers and torch. So we wait instead: when the
registry's own module is imported, by any code, our configuration is added to it. The configuration registers the
model on first use, not here: modeling_bert, which our model builds on, imports the registry itself.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_REGISTRY = "transformers.models.auto.configuration_auto"


def register(registry: ModuleType) -> None:
    """Add our configurations to ``registry``, the module of AutoConfig."""
    from anyorder.models.relative_config import RelativeBertConfig

    registry.AutoConfig.register(RelativeBertConfig.model_type, RelativeBertConfig, exist_ok=True)


class _Waiting(MetaPathFinder):
    """Finds nothing itself; when the registry is looked for, has it call :func:`register` once it is executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            register(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this loader only
        return spec


def register_when_needed() -> None:
    """Register now if transformers' registry is already imported, else as soon as it is."""
    if _REGISTRY in sys.modules:
        register(sys.modules[_REGISTRY])
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())
