"""transformers without the parts that one process answering one question never uses, for a quick start from the shell.

Importing a model class of transformers 5.22 also imports torch's compiler, its distributed tensors, scipy's optimisers
(for losses of object detectors) and accelerate: two thirds of the CPU time of ``anyorder fill`` before its first token.
transformers can do without all of them and asks whether they are there; here it is told that they are not.
It also builds a model on torch's meta device before it reads the weights, for which torch imports sympy; here the
memory is taken at once and left as it is until the weights are there. And it looks twice through the 2,500 files of
its models, and once through the files of every package installed, for the names in them: here once through its own.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

# Questions that transformers asks while it is imported, and what depends on the answer.
_ABSENT = ("is_torch_distributed_available", "is_scipy_available", "is_accelerate_available")
# The one module of torch's compiler that transformers imports without asking, for one class.
_CLASS_FROM = "torch._dynamo._trace_wrapped_higher_order_op"


@contextmanager
def lean(wanted: bool = True) -> Iterator[None]:
    """What of transformers is imported inside comes without compiler, distributed tensors, scipy, sympy and accelerate.

    Modules imported so stay so, for the life of the process: only for commands that neither train nor compile nor run
    on several machines. Where any of it is already there, or torchrun started the process, or it is not ``wanted``,
    nothing is changed.
    """
    there = "transformers.modeling_utils" in sys.modules or "torch._dynamo" in sys.modules
    if there or not wanted or "WORLD_SIZE" in os.environ:
        yield
        return
    import torch

    # Which distribution a module comes from: transformers then tries the module's own name, which finds all we need.
    with patch("importlib.metadata.packages_distributions", dict):
        import transformers.utils
    from transformers.utils import import_utils

    with ExitStack() as stack:
        scan = _scanned_once(import_utils.define_import_structure)
        stack.enter_context(patch.object(import_utils, "define_import_structure", scan))
        for name in _ABSENT:
            for module in (import_utils, transformers.utils):
                stack.enter_context(patch.object(module, name, _no))
        # Decorators that exempt functions from compilation, or say how to compile them; nothing is compiled here.
        for name in ("disable", "allow_in_graph"):
            stack.enter_context(patch.object(torch.compiler, name, _as_it_is))
        # Not `patch`, which would ask for the real one first.
        vars(torch)["_dynamo"] = sys.modules["torch._dynamo"] = _Compiler("torch._dynamo")
        stack.callback(_real_again)
        sys.modules[_CLASS_FROM] = _Compiler(_CLASS_FROM)
        try:
            import_module("transformers.masking_utils")  # the only one that imports this class
        finally:
            del sys.modules[_CLASS_FROM]
        base: Any = import_module("transformers.modeling_utils").PreTrainedModel
        stack.enter_context(patch.object(base, "get_init_context", classmethod(_off_meta(base.get_init_context))))
        yield


def _scanned_once(scan: Callable[..., Any]) -> Callable[..., Any]:
    """transformers' search for the names in its files; of all models it takes what `transformers` itself has found."""
    package: Any = sys.modules["transformers"]
    modules: dict[str, str] = getattr(package, "_class_to_module", {})
    names: dict[str, set[str]] = defaultdict(set)
    for name, module in modules.items():
        if module.startswith("models."):
            names[module.removeprefix("models.")].add(name)

    def scanned(path: str, *args: Any, **kwargs: Any) -> Any:
        everything = os.path.join(os.path.dirname(package.__file__), "models", "__init__.py")
        return {frozenset(): dict(names)} if names and str(path) == everything else scan(path, *args, **kwargs)

    return scanned


def _real_again() -> None:
    """Whoever asks for the compiler from here on gets it."""
    if isinstance(sys.modules.get("torch._dynamo"), _Compiler):
        del sys.modules["torch._dynamo"]
        vars(sys.modules["torch"]).pop("_dynamo", None)


class _Compiler(ModuleType):
    """In the place of a module of torch's compiler: what transformers needs of it to be imported."""

    def __getattr__(self, name: str) -> Any:
        if name in ("assume_constant_result", "allow_in_graph", "disable"):
            return _as_it_is
        if name == "TransformGetItemToIndex":
            return _index
        if name.startswith("__"):
            raise AttributeError(name)
        _real_again()
        return getattr(import_module(self.__name__), name)


def _no(*_: Any, **__: Any) -> bool:
    return False


def _as_it_is(function: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
    return _as_it_is if function is None else function


def _off_meta(contexts: Any) -> Callable[..., list[Any]]:
    """The ``contexts`` a model is built in, with empty memory in place of the meta device."""

    def off_meta(cls: type, *args: Any, **kwargs: Any) -> list[Any]:
        from transformers.initialization import no_init_weights

        found = contexts.__func__(cls, *args, **kwargs)
        return [no_init_weights() if str(one) == "meta" else one for one in found]

    return off_meta


def _index() -> Any:
    """The compiler's class, imported when it is first used."""
    return import_module(_CLASS_FROM).TransformGetItemToIndex()
