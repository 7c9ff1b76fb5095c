"""Muon: momentum orthogonalised by Newton–Schulz, for the hidden matrices (Jordan et al. 2024).

torch.optim.Muon does the same but always iterates in bfloat16, which CPUs without bfloat16 units emulate several
hundred times slower. This one iterates in the parameter's own precision and is otherwise the same update.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

_A, _B, _C = 3.4445, -4.7750, 2.0315  # the quintic whose iteration sends every singular value near 1
_STEPS = 5


def orthogonalise(matrix: Tensor) -> Tensor:
    """The nearest (semi-)orthogonal matrix, approximately: singular values land within about [0.7, 1.2]."""
    x = matrix / (matrix.norm() + 1e-7)
    wide = x if x.shape[0] <= x.shape[1] else x.T
    for _ in range(_STEPS):
        gram = wide @ wide.T
        wide = _A * wide + (_B * gram + _C * gram @ gram) @ wide
    return wide if x.shape[0] <= x.shape[1] else wide.T


class Muon(torch.optim.Optimizer):
    """Update W ← W (1 - lr·λ) - lr √max(1, outputs/inputs) · orthogonalise(Nesterov momentum).

    A matrix is [outputs, inputs] as in torch's Linear; a group with ``transposed`` set has them the other way round, as
    in GPT-2's Conv1D.
    """

    def __init__(self, params: list[dict[str, Any]], lr: float, momentum: float, weight_decay: float) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "transposed": False}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure: the trainer never has one
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            matrices = [p for p in group["params"] if p.grad is not None]
            directions = []
            for p in matrices:
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                directions.append(p.grad.lerp(buffer, group["momentum"]))
            for p, update in zip(matrices, orthogonalise_all(directions), strict=True):
                outputs, inputs = reversed(p.shape) if group["transposed"] else p.shape
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1.0, outputs / inputs) ** 0.5)


def orthogonalise_all(matrices: list[Tensor]) -> list[Tensor]:
    """:func:`orthogonalise` each; with several processes, which all hold the same matrices, each does its share."""
    if not distributed.is_initialized():
        return [orthogonalise(m) for m in matrices]
    load = [0] * distributed.get_world_size()
    flat = torch.zeros(sum(m.numel() for m in matrices)).to(matrices[0])
    results = [part.view_as(m) for part, m in zip(flat.split([m.numel() for m in matrices]), matrices, strict=True)]
    for matrix, result in sorted(zip(matrices, results, strict=True), key=lambda pair: -pair[0].numel()):
        owner = load.index(min(load))
        load[owner] += matrix.numel() * min(matrix.shape)
        if owner == distributed.get_rank():
            result.copy_(orthogonalise(matrix))
    distributed.all_reduce(flat)  # every entry has one owner and is zero elsewhere: an exact sum
    return results
