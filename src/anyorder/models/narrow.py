"""The backbone with its last feed-forward worked out only where something is asked.

A position's hidden state is read by others only through attention, so what follows the attention of the last layer is
needed at the asked positions alone: 2/3 of that layer, one twelfth of a backbone of eight layers.
ModernBERT's other layers are replaced as well, by faster ones (``modernbert.py``).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from anyorder.models.products import share


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


# Only families whose backbone hands unknown keyword arguments down to its layers are here: that is how ``asked``
# reaches them, statelessly.
_BERTS = ("bert", "anyorder-relative-bert", "roberta", "xlm-roberta", "camembert", "electra", "esm")


def narrow(model: Any) -> nn.Module | None:
    """A backbone that shares every weight with ``model``'s and takes a further argument ``asked``; None if unknown.

    ``model`` itself is left as it is: only the containers on the way to the layers are copied.
    """
    family = model.config.model_type
    if family not in (*_BERTS, "modernbert"):
        return None
    backbone = here = share(model.base_model)
    for name in ("encoder", "layer") if family in _BERTS else ("layers",):
        child = share(getattr(here, name))
        here._modules[name] = child
        here = child
    last = str(len(here._modules) - 1)
    if family in _BERTS:
        here._modules[last] = _BertLayer(here._modules[last])
    else:
        from anyorder.models.modernbert import Layer  # transformers' ModernBERT takes a while to import

        here._modules = {name: Layer(layer, name == last) for name, layer in here._modules.items()}
    return backbone.eval()
