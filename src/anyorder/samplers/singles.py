"""Every single-mask conditional log q(x_t | x_-t) of a text, on which the MRF energy and a draft's certainty rest."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.samplers.draw import ask, of_rows
from anyorder.types import Conditionals


def single_mask_log_probs(conditionals: Conditionals, tokens: Tensor, where: Tensor) -> tuple[Tensor, int]:
    """log q(x_t | x_-t) of the tokens themselves, at the positions ``where`` [B, N]; one row of the model each.

    A bidirectional model shows a token to itself, so each position needs a row of its own in which it is masked.

    Returns:
        [B, N] float64, zero outside ``where``, and the rows sent through the model.
    """
    row, position = where.nonzero(as_tuple=True)  # [R]
    masked = tokens[row]
    held = masked.gather(1, position[:, None])  # [R, 1]
    masked = masked.scatter(1, position[:, None], conditionals.mask_id)

    def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        return (log_q[:, 0].gather(1, held[rows]).squeeze(1).double(),)

    (log_prob,), rows_sent = ask(of_rows(conditionals, row), masked, position[:, None], read)
    out = torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)
    out[row, position] = log_prob
    return out, rows_sent
