"""Optimisers and the learning-rate schedule, as pure functions of the recipe and the step."""

from __future__ import annotations

import math
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
        rest = {n: p for n, p in named.items() if n not in hidden}
        conv = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, Conv1D)}
        kinds = {turned: [p for n, p in hidden.items() if (n in conv) == turned] for turned in (False, True)}
        matrices = [{"params": params, "transposed": turned} for turned, params in kinds.items() if params]
        return [
            Muon(matrices, lr=recipe.muon_lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay),
            torch.optim.AdamW(
                _groups(rest, recipe.weight_decay), lr=recipe.lr, betas=recipe.betas, eps=recipe.eps, fused=True
            ),
        ]
    groups = _groups(named, recipe.weight_decay)
    if recipe.name == "lamb":
        try:
            from pytorch_optimizer import Lamb
        except ImportError as error:
            raise AnyorderError("LAMB comes with an extra: pip install 'anyorder[train]'") from error
        return [Lamb(groups, lr=recipe.lr, betas=recipe.betas, eps=recipe.eps, weight_decouple=False)]
    return [torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, eps=recipe.eps, fused=True)]


def _groups(named: dict[str, nn.Parameter], weight_decay: float) -> list[dict]:
    """Matrices decay, vectors (norms, biases) do not."""
    return [
        {"params": [p for p in named.values() if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in named.values() if p.ndim < 2], "weight_decay": 0.0},
    ]


def rate(recipe: OptimRecipe, step: int) -> float:
    """Factor on every learning rate at ``step``: linear warm-up, then the decay named in the recipe.

    Each of ``recipe.starts`` begins this anew, as one goes on with a model whose rate had already fallen (Wen et al.
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
    return min(1.0, (1 - progress) / recipe.share_of_decay(part))
