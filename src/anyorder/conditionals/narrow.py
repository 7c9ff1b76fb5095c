"""The backbone with its last feed-forward worked out only where something is asked.

A position's hidden state is read by others only through attention, so what follows the attention of the last layer is
needed at the asked positions alone: 2/3 of that layer, one twelfth of a backbone of eight layers.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn


class _BertLayer(nn.Module):
    """A last layer of BERT's kind: attention in full, the rest at ``asked`` only."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: Tensor, *args: Any, asked: Tensor, **kwargs: Any) -> Tensor:
        """[b, n, H] and M flat indices into b·n -> [M, H]."""
        kwargs.pop("encoder_attention_mask", None)
        mask = args[0] if args else kwargs.pop("attention_mask")
        out = self.layer.attention(hidden, mask, **kwargs)
        out = out[0] if isinstance(out, tuple) else out  # ESM's attention returns no weights beside it
        return self.layer.feed_forward_chunk(out.flatten(0, 1)[asked])


class _ModernBertLayer(nn.Module):
    """A last layer of ModernBERT: the same, with the residual stream beside it."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.attention_type = layer.attention_type

    def forward(self, hidden: Tensor, *, asked: Tensor, **kwargs: Any) -> Tensor:
        """[b, n, H] and M flat indices into b·n -> [M, H]."""
        out = hidden + self.layer.attn(self.layer.attn_norm(hidden), **kwargs)[0]
        out = out.flatten(0, 1)[asked]
        return out + self.layer.mlp(self.layer.mlp_norm(out))


# model_type -> the layer's stand-in and where the list of layers hangs in the backbone. Only families whose backbone
# hands unknown keyword arguments down to its layers are here: that is how ``asked`` reaches the last one, statelessly.
_FAMILIES: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {
    **dict.fromkeys(
        ("bert", "anyorder-relative-bert", "roberta", "xlm-roberta", "camembert", "electra", "esm"),
        (_BertLayer, ("encoder", "layer")),
    ),
    "modernbert": (_ModernBertLayer, ("layers",)),
}


def narrow(model: Any) -> nn.Module | None:
    """A backbone that shares every weight with ``model``'s and takes a further argument ``asked``; None if unknown.

    ``model`` itself is left as it is: only the containers on the way to the last layer are copied.
    """
    if model.config.model_type not in _FAMILIES:
        return None
    stand_in, path = _FAMILIES[model.config.model_type]
    backbone = here = _share(model.base_model)
    for name in path:
        child = _share(getattr(here, name))
        here._modules[name] = child
        here = child
    last = str(len(here._modules) - 1)
    here._modules[last] = stand_in(here._modules[last])
    return backbone.eval()


def _share(module: nn.Module) -> nn.Module:
    """The same module with a list of children of its own."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin
