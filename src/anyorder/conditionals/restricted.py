"""Conditionals that may draw only some tokens: the one way to forbid any."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyorder.conditionals.reread import chain_by_asking
from anyorder.errors import AnyorderError
from anyorder.text.vocabulary import vocabulary
from anyorder.types import Conditionals, Ordered

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class _Rules:
    """What may stand where: q(x_t = v) = 0 unless v is allowed at t, normalised again over those that are.

    A rule depends on the position at most (no special tokens, whole words, a given first letter) and, where texts
    differ, on the row of the batch.
    """

    def __init__(self, inner: Conditionals | Ordered, allowed: Tensor | Sequence[Tensor]) -> None:
        """Restrict ``inner`` to ``allowed``, at least one token at each position.

        Args:
            inner: The model.
            allowed: [V] bool for all positions, or [N, V]; or a table [N, V] for each row of the batch, of the row's
                own length.
        """
        self.vocab_size = inner.vocab_size
        self.mask_id = inner.mask_id
        self.pad_id = inner.pad_id
        # Most positions share one rule: keep each distinct rule once, and a position's number among them. Most rows
        # share a table, too.
        tables = [allowed] if isinstance(allowed, Tensor) else list(allowed)
        if all(table is tables[0] for table in tables):
            tables = tables[:1]  # then which row asks does not matter
        numbers: dict[bytes, int] = {}
        bans: list[Tensor] = []
        read: dict[int, Tensor] = {}
        for table in tables:
            if id(table) not in read:
                read[id(table)] = self._read(table, numbers, bans)
        self._rule = pad_sequence([read[id(table)] for table in tables], batch_first=True)  # [B or 1, N or 1]
        self._bans = torch.stack(bans)  # [R, V]

    @staticmethod
    def _read(table: Tensor, numbers: dict[bytes, int], bans: list[Tensor]) -> Tensor:
        """The rule of every position of one table, [N] or [1]; new ones are added to ``numbers`` and ``bans``."""
        if not bool(table.any(-1).all()):
            raise AnyorderError("every position needs at least one allowed token: forbid fewer")
        rows = table.view(-1, table.shape[-1])
        rule = []
        for row, packed in zip(rows, np.packbits(rows.numpy(), axis=1), strict=True):
            key = packed.tobytes()
            if key not in numbers:
                numbers[key] = len(bans)
                bans.append(~row)
            rule.append(numbers[key])
        return torch.tensor(rule)

    def _restricted(self, log_q: Tensor, positions: Tensor) -> Tensor:
        """``log_q`` [B, K, V] at ``positions`` [B, K], a new tensor: the model may keep the one it handed out."""
        rule = self._rule.to(positions.device).expand(len(positions), -1)
        index = positions.clamp(min=0) if rule.shape[1] > 1 else torch.zeros_like(positions)
        banned = self._bans.to(log_q.device)[rule.gather(1, index)]
        # By the contract a position of -1 is answered with the uniform distribution, rules or no rules.
        banned &= (positions >= 0)[..., None]
        kept = log_q.masked_fill(banned, -torch.inf)
        answer = kept.log_softmax(-1)
        # Only exact zeros, as of a table, can leave nothing: then all that is allowed is alike, as in a table that is
        # asked about what cannot be. One token tells such a row; a NaN of the model's own stays one.
        if bool(answer[..., 0].isnan().any()):
            nothing = kept.isneginf().all(-1, keepdim=True)
            answer = torch.where(nothing, (~banned).to(kept).log(), kept).log_softmax(-1)
        return answer


class Restricted(_Rules):
    """log q(x_t | observed, x_t allowed at t)."""

    def __init__(self, conditionals: Conditionals, allowed: Tensor | Sequence[Tensor]) -> None:
        super().__init__(conditionals, allowed)
        self._conditionals = conditionals

    def of_rows(self, rows: Tensor) -> Restricted:
        """See :class:`anyorder.types.RowWise`."""
        if len(self._rule) == 1:
            return self
        part = copy(self)
        part._rule = self._rule[rows]
        return part

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q, [B, K, V]; see :class:`anyorder.types.Conditionals`."""
        return self._restricted(self._conditionals(tokens, positions), positions)


class RestrictedOrdered(_Rules):
    """The same of a model read in order; see :class:`anyorder.types.Ordered`. What is read is read as by the model."""

    def __init__(self, ordered: Ordered, allowed: Tensor | Sequence[Tensor]) -> None:
        super().__init__(ordered, allowed)
        self._ordered = ordered
        self.begin, self.read, self.forget = ordered.begin, ordered.read, ordered.forget

    def ask(self, memory: Any, positions: Tensor) -> Tensor:
        """log q, [B, K, V]."""
        return self._restricted(self._ordered.ask(memory, positions), positions)

    def read_asking(self, memory: Any, positions: Tensor, tokens: Tensor, asked: Tensor) -> tuple[Any, Tensor]:
        """As the model, with its answers restricted."""
        memory, log_q = self._ordered.read_asking(memory, positions, tokens, asked)
        return memory, self._restricted(log_q, asked)

    def chain(self, tokens: Tensor, given: Tensor, order: Tensor) -> Tensor:
        """[B, N] float64, one question after the other: the restricted law is normalised over all V."""
        return chain_by_asking(self, tokens, given, order)


def text_only(conditionals: Conditionals, tokenizer: PreTrainedTokenizerBase) -> Restricted:
    """``conditionals`` over tokens that are text: what every command that draws text draws from, unless told otherwise.

    Never text are special tokens, placeholders such as ``[unused7]``, and ids the tokenizer does not know
    (:class:`anyorder.text.vocabulary.Vocabulary`).
    """
    return Restricted(conditionals, ~vocabulary(tokenizer, conditionals.vocab_size).special)
