"""Pseudo-log-likelihoods: every token given all the others.

They sum conditionals that belong to no single factorisation, so they are scores, not log-probabilities: good for
ranking sentences, and too high for anything with predictable repetition inside it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.scoring.ask import one_by_one
from anyorder.types import Conditionals


def pll(conditionals: Conditionals, tokens: Tensor, free: Tensor) -> Tensor:
    """PLL(x) = Σ_i log q(x_i | x_-i) (Salazar et al. 2020, eq. 1), as its terms.

    Args:
        conditionals: The model.
        tokens: [B, N] complete texts.
        free: [B, N] bool, the positions to score.

    Returns:
        [B, N] float64: log q of each free token, 0 elsewhere.
    """
    index = torch.arange(tokens.shape[1])
    return one_by_one(conditionals, tokens, free, lambda b, i: index == i[:, None])


def pll_word(conditionals: Conditionals, tokens: Tensor, free: Tensor, words: Tensor) -> Tensor:
    """PLL-word-l2r (Kauf & Ivanova 2023): token i is asked with the rest of its word, to its right, hidden too.

    Plain PLL sees the end of a rare word while it is asked for the beginning, and so overrates words of many tokens.

    Args:
        conditionals: The model.
        tokens: [B, N] complete texts.
        free: [B, N] bool, the positions to score.
        words: [B, N] the number of the word each token belongs to; equal numbers are one word.

    Returns:
        [B, N] float64: log q of each free token, 0 elsewhere.
    """
    index = torch.arange(tokens.shape[1])

    def rest_of_word(b: Tensor, i: Tensor) -> Tensor:
        return free[b] & (words[b] == words[b, i][:, None]) & (index >= i[:, None])

    return one_by_one(conditionals, tokens, free, rest_of_word)
