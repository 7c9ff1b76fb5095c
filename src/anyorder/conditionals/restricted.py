"""Conditionals that may draw only some tokens: the one way to forbid any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anyorder.conditionals.reread import chain_by_asking
from anyorder.errors import AnyorderError
from anyorder.text.vocabulary import vocabulary
from anyorder.types import Conditionals, Ordered

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class _Rules:
    """What may stand where: q(x_t = v) = 0 unless v is allowed at t, normalised again over those that are.

    A rule depends on the position at most (no special tokens, whole words, a given first letter), so the same
    restriction serves any batch of rows, in any order, however a sampler has cut it.
    """

    def __init__(self, inner: Conditionals | Ordered, allowed: Tensor) -> None:
        """Restrict ``inner`` to ``allowed``: [V] bool for all positions, or [N, V], at least one token at each."""
        if not bool(allowed.any(-1).all()):
            raise AnyorderError("every position needs at least one allowed token: forbid fewer")
        self.vocab_size = inner.vocab_size
        self.mask_id = inner.mask_id
        self.pad_id = inner.pad_id
        # Most positions share one rule: keep each distinct rule once, and a position's number among them.
        numbers: dict[bytes, int] = {}
        keys = [row.tobytes() for row in np.packbits(np.atleast_2d(allowed.numpy()), axis=1)]
        self._rule = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys])  # [N], or [1]
        self._bans = ~allowed.view(len(keys), -1)[[keys.index(key) for key in numbers]]  # [R, V]

    def _restricted(self, log_q: Tensor, positions: Tensor) -> Tensor:
        """``log_q`` [B, K, V] at ``positions`` [B, K], a new tensor: the model may keep the one it handed out."""
        rule = self._rule.to(positions.device)
        index = positions.clamp(min=0) if len(rule) > 1 else torch.zeros_like(positions)
        banned = self._bans.to(log_q.device)[rule[index]]
        # By the contract a position of -1 is answered with the uniform distribution, rules or no rules.
        banned &= (positions >= 0)[..., None]
        return log_q.masked_fill(banned, -torch.inf).log_softmax(-1)


class Restricted(_Rules):
    """log q(x_t | observed, x_t allowed at t)."""

    def __init__(self, conditionals: Conditionals, allowed: Tensor) -> None:
        super().__init__(conditionals, allowed)
        self._conditionals = conditionals

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q, [B, K, V]; see :class:`anyorder.types.Conditionals`."""
        return self._restricted(self._conditionals(tokens, positions), positions)


class RestrictedOrdered(_Rules):
    """The same of a model read in order; see :class:`anyorder.types.Ordered`."""

    def __init__(self, ordered: Ordered, allowed: Tensor) -> None:
        super().__init__(ordered, allowed)
        self._ordered = ordered

    def begin(self, tokens: Tensor, given: Tensor) -> Any:
        """As the model."""
        return self._ordered.begin(tokens, given)

    def read(self, memory: Any, positions: Tensor, tokens: Tensor) -> Any:
        """As the model."""
        return self._ordered.read(memory, positions, tokens)

    def ask(self, memory: Any, positions: Tensor) -> Tensor:
        """log q, [B, K, V]."""
        return self._restricted(self._ordered.ask(memory, positions), positions)

    def chain(self, tokens: Tensor, given: Tensor, order: Tensor) -> Tensor:
        """[B, N] float64, one question after the other: the restricted law is normalised over all V."""
        return chain_by_asking(self, tokens, given, order)


def text_only(conditionals: Conditionals, tokenizer: PreTrainedTokenizerBase) -> Restricted:
    """``conditionals`` over tokens that are text: what every command that draws text draws from, unless told otherwise.

    Never text are special tokens, placeholders such as ``[unused7]``, and ids the tokenizer does not know
    (:class:`anyorder.text.vocabulary.Vocabulary`).
    """
    return Restricted(conditionals, ~vocabulary(tokenizer, conditionals.vocab_size).special)
