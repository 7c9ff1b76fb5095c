"""Any conditionals read in order, by reading everything again for every question.

The conditionals of an exact table are those of one joint, so that it does not matter when a token was read: this is the
order-causal reading itself, and the oracle of all that is built on :class:`anyorder.types.Ordered`. For a model it is
the plain loop against which keeping keys and values is measured.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.conditionals.turns import check_ask, check_given, check_order, check_read
from anyorder.models.ordered import placed
from anyorder.types import Conditionals, Ordered


class Reading(NamedTuple):
    """The texts as far as they were read."""

    tokens: Tensor  # [B, N], the mask where nothing is known
    known: Tensor  # [B, N] bool


class Reread:
    """``conditionals`` as :class:`anyorder.types.Ordered`: log q(x_t | given, read), all else masked."""

    def __init__(self, conditionals: Conditionals) -> None:
        self.conditionals = conditionals
        self.vocab_size = conditionals.vocab_size
        self.mask_id = conditionals.mask_id
        self.pad_id = conditionals.pad_id

    def begin(self, tokens: Tensor, given: Tensor) -> Reading:
        """Keep the ``given`` among ``tokens``."""
        check_given(tokens, given)
        known = given if self.pad_id is None else given | (tokens == self.pad_id)
        return Reading(tokens.masked_fill(~known, self.mask_id), known)

    def read(self, memory: Reading, positions: Tensor, tokens: Tensor) -> Reading:
        """Put ``tokens`` at ``positions``."""
        check_read(memory.known, positions)
        return Reading(placed(memory.tokens, positions, tokens), placed(memory.known, positions, True))

    def ask(self, memory: Reading, positions: Tensor) -> Tensor:
        """log q, [B, K, V]."""
        check_ask(memory.known, positions)
        asks = (positions >= 0).any(1)
        if bool(asks.all()):
            return self.conditionals(memory.tokens, positions)
        nothing = torch.full((*positions.shape, self.vocab_size), -math.log(self.vocab_size), device=positions.device)
        if not bool(asks.any()):
            return nothing
        log_q = self.conditionals(memory.tokens[asks], positions[asks])
        return nothing.to(log_q.dtype).index_put_((asks.nonzero()[:, 0],), log_q)

    def read_asking(self, memory: Reading, positions: Tensor, tokens: Tensor, asked: Tensor) -> tuple[Reading, Tensor]:
        """Column by column."""
        return read_asking_by_asking(self, memory, positions, tokens, asked)

    def forget(self, memory: Reading, positions: Tensor) -> Reading:
        """Masks at ``positions`` again."""
        return Reading(placed(memory.tokens, positions, self.mask_id), placed(memory.known, positions, False))

    def chain(self, tokens: Tensor, given: Tensor, order: Tensor) -> Tensor:
        """[B, N] float64, one question after the other."""
        return chain_by_asking(self, tokens, given, order)


def read_asking_by_asking(
    ordered: Ordered, memory: Any, positions: Tensor, tokens: Tensor, asked: Tensor
) -> tuple[Any, Tensor]:
    """:meth:`anyorder.types.Ordered.read_asking` by its definition."""
    answers = []
    for position, token, question in zip(*(part.split(1, 1) for part in (positions, tokens, asked)), strict=True):
        memory = ordered.read(memory, position, token)
        answers.append(ordered.ask(memory, question))
    return memory, torch.cat(answers, 1)


def chain_by_asking(ordered: Ordered, tokens: Tensor, given: Tensor, order: Tensor) -> Tensor:
    """:meth:`anyorder.types.Ordered.chain` by its definition: ask for σ_t, read x_σt, and so on."""
    memory = ordered.begin(tokens, given)
    check_order(memory.known, order)
    answer = torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)
    for column in order.split(1, dim=1):
        place = column.clamp(min=0)
        token = tokens.gather(1, place)
        log_q = ordered.ask(memory, column).gather(-1, token[..., None])[..., 0].double()
        answer.scatter_add_(1, place, torch.where(column < 0, 0.0, log_q))
        memory = ordered.read(memory, column, token)
    return answer
