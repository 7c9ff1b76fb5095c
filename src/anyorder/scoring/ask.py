"""Questions to a model in bounded memory: which token was hidden, and what else was hidden with it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.types import Conditionals

# Floats of log q [R, K, V] held at once. A call holds a few such tensors: about 100 MB, whatever the texts' length.
CELLS = 2**23


def one_by_one(
    conditionals: Conditionals, tokens: Tensor, free: Tensor, hidden: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """log q(x_i | x_-H(i)) of every free token, each asked in a row of its own.

    Every exact score is this sum and differs only in H(i), what is hidden while token i is asked.

    Args:
        conditionals: The model.
        tokens: [B, N] complete texts.
        free: [B, N] bool, the positions to score; all others are observed throughout.
        hidden: (text [R], position [R]) -> [R, N] bool, H for each question; it contains the position itself.

    Returns:
        [B, N] float64, 0 where nothing is asked.
    """
    answer = torch.zeros(tokens.shape, dtype=torch.float64)
    rows = max(1, CELLS // conditionals.vocab_size)
    texts, positions = free.nonzero(as_tuple=True)
    for b, i in zip(texts.split(rows), positions.split(rows), strict=True):
        asked = tokens[b].masked_fill(hidden(b, i), conditionals.mask_id)
        log_q = conditionals(asked, i[:, None])[:, 0]  # [R, V]
        answer[b, i] = log_q.gather(-1, tokens[b, i][:, None])[:, 0].to(answer)
    return answer


def all_at_once(conditionals: Conditionals, tokens: Tensor, hidden: Tensor) -> Tensor:
    """log q(x_i | x_-M) of every token i in M, one row a mask M.

    Args:
        conditionals: The model.
        tokens: [R, N] complete texts.
        hidden: [R, N] bool, the mask M of each row.

    Returns:
        [R, N] float64, 0 outside M.
    """
    answer = torch.zeros(tokens.shape, dtype=torch.float64)
    count = hidden.sum(-1)
    # Rows with as many questions lie together, so that the padding of K costs nothing.
    by_count = count.argsort(descending=True)
    start = 0
    while start < len(by_count):
        k = int(count[by_count[start]])
        if k == 0:
            break
        r = by_count[start : start + max(1, CELLS // (k * conditionals.vocab_size))]
        start += len(r)
        # The k hidden positions first, in reading order; -1 where a row has fewer.
        positions = (~hidden[r]).to(torch.uint8).sort(dim=-1, stable=True).indices[:, :k]
        asks = hidden[r].gather(-1, positions)
        log_q = conditionals(tokens[r].masked_fill(hidden[r], conditionals.mask_id), positions.where(asks, -1))
        of_token = log_q.gather(-1, tokens[r].gather(-1, positions)[..., None])[..., 0]
        answer[r] = answer[r].scatter(-1, positions, of_token.to(answer).where(asks, 0.0))
    return answer
