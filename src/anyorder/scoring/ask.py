"""Questions to a model in bounded memory: which token was hidden, and what else was hidden with it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.types import Conditionals, TokenScores

# Token ids of the rows [R, N] asked at once, and floats of log q [R, K, V] where all of it is worked out. A call holds
# a few such tensors: about 100 MB, whatever the texts' length.
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
    rows = max(1, CELLS // tokens.shape[1])
    texts, positions = free.nonzero(as_tuple=True)
    for b, i in zip(texts.split(rows), positions.split(rows), strict=True):
        asked = tokens[b].masked_fill(hidden(b, i), conditionals.mask_id)
        answer[b, i] = log_q_of(conditionals, asked, i[:, None], tokens[b, i][:, None])[:, 0].to(answer)
    return answer


def all_at_once(conditionals: Conditionals, tokens: Tensor, hidden: Tensor) -> Tensor:
    """log q(x_i | x_-M) of every token i in M, one row per mask M.

    Args:
        conditionals: The model.
        tokens: [R, N] complete texts.
        hidden: [R, N] bool, the mask M of each row.

    Returns:
        [R, N] float64, 0 outside M.
    """
    # The k hidden positions first, in reading order; -1 where a row has fewer.
    k = int(hidden.sum(-1).max()) if len(hidden) else 0
    positions = (~hidden).to(torch.uint8).sort(dim=-1, stable=True).indices[:, :k]
    asks = hidden.gather(-1, positions)
    of_token = log_q_of(
        conditionals,
        tokens.masked_fill(hidden, conditionals.mask_id),
        positions.where(asks, -1),
        tokens.gather(-1, positions),
    )
    answer = torch.zeros(tokens.shape, dtype=torch.float64)
    return answer.scatter(-1, positions, of_token.to(answer).where(asks, 0.0))


def log_q_of(conditionals: Conditionals, tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
    """log q of the ``wanted`` tokens [R, K] at ``positions`` [R, K]: directly from a model that can tell it without
    holding log q of all V, else picked from that, a few rows at a time.
    """
    if isinstance(conditionals, TokenScores):
        return conditionals.of_tokens(tokens, positions, wanted)
    rows = max(1, CELLS // (max(1, positions.shape[1]) * conditionals.vocab_size))
    parts = zip(tokens.split(rows), positions.split(rows), wanted.split(rows), strict=True)
    return torch.cat([conditionals(t, p).gather(-1, w[..., None])[..., 0] for t, p, w in parts])
