"""Matrix products in single precision by whichever of torch's two libraries is the faster one on this CPU.

torch gives them to MKL, which on a processor that is not Intel's keeps to AVX2. oneDNN, which torch carries for lower
precisions, takes AVX-512 wherever it is. On an EPYC of the Zen 5 kind that is 2.2 to 2.4 times the speed from some
hundred rows on, and equal at 4; on Intel's, and without AVX-512, the two do not differ by much. What oneDNN prepares
for a shape takes 0.3 ms, once, and half a megabyte.
"""

from __future__ import annotations

import copy
import functools
import platform
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

Model = TypeVar("Model", bound=nn.Module)

_ROWS = 4  # of a product, from which oneDNN is no slower. Fewer are rounded in another way by either library.


@functools.cache
def faster_by_onednn() -> bool:
    """Whether this CPU is one on which MKL leaves the wider half of it unused."""
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return wide and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available() and _is_amd()


def _is_amd() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            name = file.read(4096)  # the first core's part, of what may be hundreds
    except OSError:  # not Linux
        name = platform.processor()
    return "AuthenticAMD" in name


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b of x [..., H] and W [N, H], as ``torch.nn.functional.linear``."""
    if not faster_by_onednn() or not _fits(x, weight):
        return functional.linear(x, weight, bias)
    if torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in (x, weight, bias)):
        return _Linear.apply(x, weight, bias)
    return by_onednn(x, weight, bias)


def _fits(x: Tensor, weight: Tensor) -> bool:
    """Single precision on a CPU, of enough rows, and nobody who compiles or casts the product."""
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and x.numel() >= _ROWS * x.shape[-1] > 0
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and bool(torch.backends.mkldnn.enabled)
    )


def by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same product, whatever the CPU and the precision, and without a gradient."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    """The operation has no gradient of its own in torch: two more products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return by_onednn(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """∂x = ∂y W, ∂W = ∂yᵀ x, ∂b = the sum of ∂y's rows."""
        x, weight = ctx.saved_tensors
        wanted, rows = ctx.needs_input_grad, grad.flatten(0, -2)
        return (
            by_onednn(grad, weight.t()) if wanted[0] else None,
            # Its transpose, (xᵀ ∂y)ᵀ: up to twice as fast.
            by_onednn(x.flatten(0, -2).t(), rows.t()).t() if wanted[1] else None,
            rows.sum(0) if wanted[2] else None,
        )


class Linear(nn.Linear):
    """``nn.Linear`` by :func:`linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] -> [..., N]"""
        return linear(x, self.weight, self.bias)


def faster(model: Model) -> Model:
    """``model``, or where it pays a twin that shares every weight and buffer with it and multiplies faster."""
    return _twin(model) if faster_by_onednn() else model


def _twin(module: Model) -> Model:
    twin = copy.copy(module)
    twin._modules = {name: None if child is None else _twin(child) for name, child in module._modules.items()}
    if is_bare(twin):
        twin.__class__ = Linear
    return twin


def share(module: Model) -> Model:
    """The same module with a list of children of its own."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin


def is_bare(module: nn.Module) -> TypeGuard[nn.Linear]:
    """A weight and a bias that may be taken apart: no adapter (LoRA), no quantisation, nothing loaded on demand."""
    return type(module) in (nn.Linear, Linear) and "forward" not in vars(module)
