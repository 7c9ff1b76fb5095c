"""The passes behind every joint: one text, one or more varying positions, one question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.types import Conditionals, LogitRows

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
        conditionals: the model. One that is :class:`anyorder.types.LogitRows` spares the bookkeeping that rows of mixed
            length need, and keeps the normaliser of each softmax: MRF-logit wants it.
        tokens: [N] the text; what stands at these positions does not matter.
        vary: the position that takes the values, or m of them.
        ask: the position that is masked and asked.
        values: [n] token ids, or [n, m].
    """
    row = tokens.clone()
    row[ask] = conditionals.mask_id
    model = conditionals if isinstance(conditionals, LogitRows) else None
    size = _ROWS if model is None else max(1, model.token_budget // len(row))
    for start in range(0, len(values), size):
        part = slice(start, min(start + size, len(values)))
        rows = row.repeat(part.stop - part.start, 1)
        rows[:, vary] = values[part]
        if model is None:
            yield Answer(part, conditionals(rows, torch.full((len(rows), 1), ask))[:, 0], None)
        else:
            yield Answer(part, *model.logit_rows(rows, ask))
