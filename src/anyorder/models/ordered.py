"""The order-causal reading of an ordinary masked LM: its own weights under another attention pattern.

Given tokens see each other; the others come in an order σ. In one sequence stand two streams:

    content    x_i at its own position i: sees the given tokens, the content before it in σ, and itself
    questions  [MASK] at position σ_t:    sees the given tokens, the content before t, and itself

and nothing sees a question. So log q(x_σt | given, x_σ<t) for all t takes one pass over given + 2K tokens (XLNet's two
streams; Yang et al., 2019), with gradients, and by the chain rule these are the conditionals of one joint law.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from anyorder.errors import AnyorderError
from anyorder.models.narrow import narrow

TRAINED = "anyorder_ordered"  # the field of a checkpoint's config that says it was trained for this reading
FAMILIES = ("bert", "anyorder-relative-bert", "roberta", "xlm-roberta", "camembert", "modernbert")
_MASKED = ("sdpa", "eager")  # attention that takes a mask of any pattern


class Streams(NamedTuple):
    """Both streams of a batch of texts: N content tokens, then K questions, both in reading order."""

    input_ids: Tensor  # [B, N + K]
    positions: Tensor  # [B, N + K] where each stands in its text
    visible: Tensor  # [B, N + K, N + K] bool: who (row) sees whom (column)
    asked: Tensor  # [M] flat indices into B·(N + K) of the questions, text by text


def turns(given: Tensor, order: Tensor) -> Tensor:
    """When each token is read, [B, N]: 0 where ``given`` [B, N], t at σ_t of ``order`` [B, K], -1 where never.

    Rows of ``order`` shorter than K end in -1.
    """
    b, n = given.shape
    # A spare column takes what is aimed at -1.
    turn = torch.where(torch.nn.functional.pad(given, (0, 1)), 0, -1)
    number = torch.arange(1, order.shape[1] + 1, device=given.device).expand(b, -1)
    return turn.scatter(1, torch.where(order < 0, n, order), number)[:, :n]


def two_streams(tokens: Tensor, turn: Tensor, mask_id: int, positions: Tensor, text: Tensor | None = None) -> Streams:
    """The streams of ``tokens`` [B, N] at ``positions`` [B, N], read in their ``turn`` [B, N] (:func:`turns`).

    There is one question for each turn over 0. Where a row holds several texts, ``text`` [B, N] tells them apart, each
    with positions and turns of its own.
    """
    b, n = tokens.shape
    predicted = turn > 0
    count = predicted.sum(1)
    k = int(count.max()) if b else 0
    place = (~predicted).to(torch.uint8).sort(dim=1, stable=True).indices[:, :k]  # the predicted positions first
    asks = torch.arange(k, device=tokens.device) < count[:, None]
    # Content sees what was read up to its own turn, a question what was read before it.
    reach = torch.cat([turn, turn.gather(1, place) - 1], 1)
    seen = (turn[:, None, :] <= reach[:, :, None]) & (turn >= 0)[:, None, :]
    if text is not None:
        seen &= torch.cat([text, text.gather(1, place)], 1)[:, :, None] == text[:, None, :]
    visible = torch.cat([seen, seen.new_zeros((b, n + k, k))], 2)
    visible |= torch.eye(n + k, dtype=torch.bool, device=tokens.device)
    return Streams(
        input_ids=torch.cat([tokens, torch.full_like(place, mask_id)], 1),
        positions=torch.cat([positions, positions.gather(1, place)], 1),
        visible=visible,
        asked=torch.cat([torch.zeros_like(predicted), asks], 1).flatten().nonzero()[:, 0],
    )


def refuse_unreadable(model: Any) -> None:
    """One sentence if ``model`` cannot be read in order at all."""
    family, attention = model.config.model_type, model.config._attn_implementation
    if family not in FAMILIES:
        raise AnyorderError(
            f"models of the family {family!r} cannot be read in order: read them in full, or choose one of "
            f"{', '.join(FAMILIES)}"
        )
    if attention not in _MASKED:
        raise AnyorderError(
            f"the attention {attention!r} takes no mask that says who sees whom: "
            "load the model with attn_implementation='sdpa' to read it in order"
        )


def first_position(model: Any) -> int | None:
    """The position id of a text's first token, which RoBERTa counts from the padding token's id on.

    None without a table of positions: rotary and relative ones know only distances, and these are right in any row.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return None


class OrderedStates(nn.Module):
    """Hidden states of the questions of two streams, by the layers of ``model`` itself.

    Args:
        model: An ``AutoModelForMaskedLM`` of one of ``FAMILIES``; its weights are shared, not copied.
        mask_id: The token a question is asked with.
    """

    def __init__(self, model: Any, mask_id: int) -> None:
        super().__init__()
        refuse_unreadable(model)
        self.config, self.mask_id = model.config, mask_id
        self.first = first_position(model) or 0
        backbone: Any = narrow(model)
        self.backbone = backbone.train(model.training)

    def forward(
        self, tokens: Tensor, turn: Tensor, position_ids: Tensor | None = None, text: Tensor | None = None
    ) -> Tensor:
        """[M, H] for the M tokens with a ``turn`` over 0, row by row; arguments as :func:`two_streams`."""
        if position_ids is None:
            position_ids = (torch.arange(tokens.shape[1], device=tokens.device) + self.first).expand(tokens.shape)
        streams = two_streams(tokens, turn, self.mask_id, position_ids, text)
        inputs = {
            "input_ids": streams.input_ids,
            "position_ids": streams.positions,
            "attention_mask": self._attention_mask(streams),
            "asked": streams.asked,
        }
        if self.config.model_type == "anyorder-relative-bert":
            inputs["at"] = streams.positions  # its attention works with them, not its embeddings
        return self.backbone(**inputs)[0]

    def _attention_mask(self, streams: Streams) -> Any:
        """What the layers take: [B, 1, N + K, N + K], or one for each kind of layer."""
        full = self._form(streams.visible)
        if self.config.model_type != "modernbert":
            return full
        masks = {"full_attention": full}
        if "sliding_attention" in self.config.layer_types:
            near = within(streams.positions, streams.positions, self.config.sliding_window)
            masks["sliding_attention"] = self._form(streams.visible & near)
        return masks

    def _form(self, visible: Tensor) -> Tensor:
        if self.config._attn_implementation == "sdpa":
            return visible[:, None]
        return additive(visible, self.backbone.dtype)[:, None]


def within(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """[B, M, S] bool: positions [B, M] and [B, S] at most ``window`` apart, who see each other in local layers."""
    return (queries[:, :, None] - keys[:, None, :]).abs() <= window


def additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask to add to attention scores: 0 where visible, else the smallest number."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, torch.finfo(dtype).min)
