"""Layers whose matrices lie the other way round in memory: the same products, sooner where some tens of rows are run.

A matrix product first copies its factors into the order its kernel wants. With few rows that copy of the weights is
much of the work, and it is shorter for a matrix that lies by columns: on one thread of a Xeon products of 8 to 64 rows
took 1.2 to 1.6 times less (8 layers of 256, 6 of 384), of 128 rows 1.1 to 1.2, and of 2 rows a fifth more.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from anyorder.models.products import is_bare

ROWS = range(6, 129)  # of a pass, for which it is worth it
PAYS = 256  # tokens to write from which it is: the copies take the time that writing about 100 tokens saves


def turned(layers: list[Any]) -> list[Any]:
    """``layers`` with copies of their matrices, if those are float32 on a CPU; all else is shared."""
    weight = next(layers[0].parameters())
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return layers
    return [_turned(layer) for layer in layers]


def _turned(layer: nn.Module) -> nn.Module:
    inside = [*layer.parameters(), *layer.buffers(), *(m.config for m in layer.modules() if hasattr(m, "config"))]
    copy = deepcopy(layer, {id(x): x for x in inside})  # of the modules alone: what is inside is taken for copied
    for module in copy.modules():
        if is_bare(module):
            module.weight = nn.Parameter(module.weight.detach().t().contiguous().t(), requires_grad=False)
    return copy
