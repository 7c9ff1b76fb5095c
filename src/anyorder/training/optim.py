"""Optimisers and the learning-rate schedule, as pure functions of the recipe and the step."""

from __future__ import annotations

import math
import re
from bisect import bisect_right

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from anyorder.errors import AnyorderError
from anyorder.training.muon import Muon
from anyorder.training.recipe import OptimRecipe

_BLOCKS = (".layers.", ".layer.", ".h.")  # what transformers calls the list of blocks: ModernBERT, BERT, GPT-2


def build_optimizers(model: nn.Module, recipe: OptimRecipe) -> list[torch.optim.Optimizer]:
    """One optimiser, or two with Muon: hidden matrices to Muon, the rest (embeddings, head, norms, biases) to AdamW."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if recipe.name == "muon":
        hidden = {n: p for n, p in named.items() if p.ndim == 2 and any(part in n for part in _BLOCKS)}
        if not hidden:
            raise AnyorderError("muon found no hidden matrices in this model: use optim.name: adamw")
        if recipe.layer_decay != 1:
            raise AnyorderError("optim.layer_decay is for adamw and lamb: set it to 1, or choose one of them")
        rest = {n: p for n, p in named.items() if n not in hidden}
        conv = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, Conv1D)}
        kinds = {flag: [p for n, p in hidden.items() if (n in conv) == flag] for flag in (False, True)}
        matrices = [{"params": params, "transposed": flag} for flag, params in kinds.items() if params]
        return [
            Muon(matrices, lr=recipe.muon_lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay),
            torch.optim.AdamW(_groups(rest, recipe), lr=recipe.lr, betas=recipe.betas, eps=recipe.eps, fused=True),
        ]
    groups = _groups(named, recipe)
    if recipe.name == "lamb":
        try:
            from pytorch_optimizer import Lamb
        except ImportError as error:
            raise AnyorderError("LAMB comes with an extra: pip install 'anyorder[train]'") from error
        return [Lamb(groups, lr=recipe.lr, betas=recipe.betas, eps=recipe.eps, weight_decouple=False)]
    return [torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, eps=recipe.eps, fused=True)]


def _groups(named: dict[str, nn.Parameter], recipe: OptimRecipe) -> list[dict]:
    """Matrices decay, vectors (norms, biases) do not; deeper layers may have lower rates (``layer_decay``)."""
    depth = {name: _depth(name) for name in named}
    top = max((d for d in depth.values() if d is not None), default=0) + 1
    groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
    for name, parameter in named.items():
        below = top - (top if (d := depth[name]) is None else d) if recipe.layer_decay != 1 else 0
        groups.setdefault((below, parameter.ndim >= 2), []).append(parameter)
    return [
        {
            "params": parameters,
            "weight_decay": recipe.weight_decay if matrices else 0.0,
            "lr": recipe.lr * recipe.layer_decay**below,
        }
        for (below, matrices), parameters in sorted(groups.items(), key=lambda item: (item[0][0], not item[0][1]))
    ]


def _depth(name: str) -> int | None:
    """-1 for embeddings, the number of a block, None for what stands above all blocks."""
    if "embed" in name or ".wte." in name or ".wpe." in name:
        return -1
    found = re.search(r"\.(?:layers?|h)\.(\d+)\.", name)
    return int(found[1]) if found else None


def rate(recipe: OptimRecipe, step: int) -> float:
    """Factor on every learning rate at ``step``: linear warm-up, then the decay named in the recipe.

    Each of ``recipe.starts`` begins this again, to continue a model whose rate had already fallen (Wen et al.
    2024 call it WSD-S: what was learned while it fell is not thrown away).
    """
    part = bisect_right(recipe.parts, step) - 1
    begin, end = (*recipe.parts, recipe.steps)[part : part + 2]
    if step - begin < recipe.warmup:
        return (step - begin + 1) / recipe.warmup
    progress = (step - begin - recipe.warmup) / max(1, end - begin - recipe.warmup)  # 0 .. 1
    if recipe.schedule == "constant":
        return 1.0
    if recipe.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    # linear: constant until the last `decay` of the part, then straight to zero
    return min(1.0, (1 - progress) / recipe.decay[min(part, len(recipe.decay) - 1)])
