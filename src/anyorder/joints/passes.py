"""The passes behind every joint: one text, one or more varying positions, one question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.conditionals.mlm import ModelConditionals
from anyorder.errors import AnyorderError
from anyorder.models.heads import head_of
from anyorder.models.narrow import narrow
from anyorder.types import Conditionals

NO_LOGITS = "MRF-logit needs raw logits, which only a Hugging Face model gives: use mrf instead"
_ROWS = 512  # rows asked of conditionals that are not a model, at once


class Answer(NamedTuple):
    """Some rows of a conditional table."""

    part: slice  # which of the values asked
    log_q: Tensor  # [n, V]
    log_z: Tensor | None  # [n] logits minus log_q, the same along a row; None where there are no logits


def conditional_rows(
    conditionals: Conditionals, tokens: Tensor, vary: int | list[int], ask: int, values: Tensor
) -> Iterator[Answer]:
    """log q(x_ask | x_vary = value, the rest of the text), for each value, a micro-batch at a time.

    Args:
        conditionals: the model. For one of Hugging Face the passes are run here, without the bookkeeping that rows of
            mixed length need, and the normaliser of each softmax is kept: MRF-logit wants it.
        tokens: [N] the text; what stands at these positions does not matter.
        vary: the position that takes the values, or m of them.
        ask: the position that is masked and asked.
        values: [n] token ids, or [n, m].
    """
    row = tokens.clone()
    row[ask] = conditionals.mask_id
    model = _ModelRows(conditionals) if isinstance(conditionals, ModelConditionals) else None
    size = _ROWS if model is None else max(1, model.token_budget // len(row))
    for start in range(0, len(values), size):
        part = slice(start, min(start + size, len(values)))
        rows = row.repeat(part.stop - part.start, 1)
        rows[:, vary] = values[part]
        if model is None:
            yield Answer(part, conditionals(rows, torch.full((len(rows), 1), ask))[:, 0], None)
        else:
            yield Answer(part, *model(rows, ask))


class _ModelRows:
    """Rows of one length through a Hugging Face model, asked at the same position."""

    def __init__(self, conditionals: ModelConditionals) -> None:
        self.model, self.pad_id = conditionals.model, conditionals.pad_id
        self.token_budget = conditionals.token_budget
        self.head = head_of(self.model)
        self.backbone = None if self.head is None else narrow(self.model)

    @torch.inference_mode()
    def __call__(self, rows: Tensor, ask: int) -> tuple[Tensor, Tensor]:
        """(log q [n, V], log z [n]) at position ``ask`` of rows [n, N]."""
        rows = rows.to(self.model.device)
        mask = None if self.pad_id is None else rows != self.pad_id
        if mask is not None and bool(mask.all()):
            mask = None  # attention without a mask is faster; padding stands here only as a value of its own
        if self.backbone is not None and self.head is not None:
            asked = torch.arange(len(rows), device=rows.device) * rows.shape[1] + ask
            logits = self.head(self.model, self.backbone(input_ids=rows, attention_mask=mask, asked=asked)[0])
        elif self.head is not None:
            logits = self.head(self.model, self.model.base_model(input_ids=rows, attention_mask=mask)[0][:, ask])
        else:
            logits = self.model(input_ids=rows, attention_mask=mask).logits[:, ask]
        logits = logits.float()
        # log_softmax takes a third of logsumexp's time; the best token, which is never -inf, gives the normaliser away.
        log_q = torch.log_softmax(logits, -1)
        log_z = logits.amax(-1) - log_q.amax(-1)
        if bool(log_z.isnan().any()):
            raise AnyorderError("the model answers NaN: its arithmetic overflows in this dtype; load it in float32")
        return log_q, log_z
