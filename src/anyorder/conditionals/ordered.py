"""log q(x_σt | given, x_σ<t) of a masked LM read in order: kept as it reads, or a whole text in one pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from anyorder.conditionals.mlm import micro_batches, refuse_long, refuse_nan
from anyorder.conditionals.reread import read_asking_by_asking
from anyorder.conditionals.turns import check_ask, check_asked_on_the_way, check_given, check_order, check_read
from anyorder.errors import AnyorderError
from anyorder.models.families import width_of
from anyorder.models.heads import Head, head_of
from anyorder.models.memory import SPARE, Memory, Reader
from anyorder.models.ordered import TRAINED, OrderedStates, turns
from anyorder.models.products import faster

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKEN_BUDGET = 4096  # tokens of one pass, padding included
_LOGITS = 2**22  # logits worked out at once: 16 MB in float32


@dataclass(frozen=True)
class Kept:
    """What a batch has read. Inside, rows with the most to predict come first: those done are left out."""

    inside: Memory
    rows: Tensor | None  # [B] which row of the batch each one inside is; None: as they come

    @property
    def known(self) -> Tensor:
        """[B, N] bool: what was given or read, or is padding."""
        known = self.inside.known
        return known if self.rows is None else known[self.rows.argsort()]

    def sorted(self, part: Tensor) -> Tensor:
        """The rows of ``part`` [B, ...] as they are inside, on the model's device."""
        return (part if self.rows is None else part[self.rows]).to(self.inside.known.device)


class ModelOrdered:
    """``model`` read in order; see :class:`anyorder.types.Ordered`.

    Args:
        model: An ``AutoModelForMaskedLM``, in eval mode, that was trained for it (``objective.ordered``).
        mask_id: The id of the mask token, with which questions are asked.
        pad_id: The id shorter rows end in; None: every row is full.
        max_length: The longest row the model can take, special tokens included.
        untrained: Take a model that was not trained for it, whatever its answers are worth.
    """

    def __init__(
        self, model: PreTrainedModel, *, mask_id: int, pad_id: int | None, max_length: int, untrained: bool = False
    ) -> None:
        if not (untrained or getattr(model.config, TRAINED, False)):
            raise AnyorderError(
                "this model was not trained to be read in order, so its answers would mean nothing: read it in full, "
                "train it with objective.ordered, or insist with the reading ordered-untrained"
            )
        self.model, self.mask_id, self.pad_id, self.max_length = model, mask_id, pad_id, max_length
        fast, head = faster(model), cast(Head, head_of(model))  # families that are read in order have one
        self._reader, self._states = Reader(fast, mask_id), OrderedStates(fast, mask_id)
        self._head = partial(head, fast)
        self.vocab_size = width_of(model)
        self._dtype = torch.promote_types(model.dtype, torch.float32)

    def begin(self, tokens: Tensor, given: Tensor) -> Kept:
        """Read the ``given`` [B, N]."""
        given, padding = self._checked(tokens, given)
        count = (given | padding).sum(1)
        rows = None if bool((count.diff() >= 0).all()) else count.argsort(stable=True)
        with torch.inference_mode():
            parts = (part if rows is None else part[rows] for part in (tokens, given, padding))
            return Kept(self._reader.begin(*(part.to(self.model.device) for part in parts)), rows)

    def read(self, memory: Kept, positions: Tensor, tokens: Tensor) -> Kept:
        """Read ``tokens`` [B, K] at ``positions`` [B, K]."""
        positions = memory.sorted(positions)
        check_read(memory.inside.current().known, positions)
        with torch.inference_mode():
            return Kept(self._reader.read(memory.inside, positions, memory.sorted(tokens)), memory.rows)

    def ask(self, memory: Kept, positions: Tensor) -> Tensor:
        """log q, [B, K, V] in float32 at least, on the device of ``positions``."""
        asked = memory.sorted(positions)
        check_ask(memory.inside.current().known, asked)
        answer = self._uniform(positions)
        with torch.inference_mode():
            step = max(1, TOKEN_BUDGET // max(1, len(asked)))
            for part, into in zip(asked.split(step, 1), answer.split(step, 1), strict=True):
                self._answer(memory, part, self._reader.ask(memory.inside, part), into)
        refuse_nan(answer[..., 0])
        return answer

    def read_asking(self, memory: Kept, positions: Tensor, tokens: Tensor, asked: Tensor) -> tuple[Kept, Tensor]:
        """One pass over the tokens and the questions, unless they are too many for one."""
        if positions.shape[1] > SPARE or 2 * positions.numel() > TOKEN_BUDGET:
            return read_asking_by_asking(self, memory, positions, tokens, asked)
        read, questions = memory.sorted(positions), memory.sorted(asked)
        check_read(memory.inside.current().known, read)
        check_asked_on_the_way(memory.inside.current().known, read, questions)
        answer = self._uniform(asked)
        with torch.inference_mode():
            inside, hidden = self._reader.read_asking(memory.inside, read, memory.sorted(tokens), questions)
            memory = Kept(inside, memory.rows)
            self._answer(memory, questions, hidden, answer)
        refuse_nan(answer[..., 0])
        return memory, answer

    def forget(self, memory: Kept, positions: Tensor) -> Kept:
        """Free the slots of ``positions`` [B, K], the last that were read."""
        with torch.inference_mode():
            return Kept(self._reader.forget(memory.inside, memory.sorted(positions)), memory.rows)

    def _uniform(self, asked: Tensor) -> Tensor:
        """[B, K, V], what -1 is answered; allocated outside inference mode, so that the caller may change it."""
        v = self.vocab_size
        return torch.full((*asked.shape, v), -math.log(v), dtype=self._dtype, device=asked.device)

    def _answer(self, memory: Kept, asked: Tensor, hidden: Tensor, into: Tensor) -> None:
        """Write log q of the questions ``asked`` [B, K], whose ``hidden`` [B, K, H] are inside, to [B, K, V]."""
        if memory.rows is None and into.numel() <= _LOGITS and bool((asked >= 0).all()):  # nothing to pick out
            into.copy_(self._head(hidden).to(self._dtype).log_softmax(-1))
            return
        row, column = (asked >= 0).nonzero(as_tuple=True)
        place = row if memory.rows is None else memory.rows.to(row.device)[row]
        for r, to, c in zip(*(x.split(max(1, _LOGITS // self.vocab_size)) for x in (row, place, column)), strict=True):
            log_q = self._head(hidden[r, c]).to(self._dtype).log_softmax(-1)
            into[to.to(into.device), c.to(into.device)] = log_q.to(into.device)

    def chain(self, tokens: Tensor, given: Tensor, order: Tensor) -> Tensor:
        """[B, N] float64: one pass over each text's tokens and as many questions as it has tokens to predict."""
        given, padding = self._checked(tokens, given)
        check_order(given | padding, order)
        turn = turns(given, order)
        answer = torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)
        column = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        length = ((turn >= 0) * column).amax(1)  # up to the last token that is read
        asked = (turn > 0).sum(1)
        width = length + asked
        rows = width.argsort(stable=True)
        rows = rows[asked[rows] > 0]
        with torch.inference_mode():
            for start, stop in micro_batches(width[rows].tolist(), TOKEN_BUDGET):
                part = rows[start:stop]
                longest = int(length[part].max())
                answer[part, :longest] = self._chain(tokens[part, :longest], turn[part, :longest]).to(answer)
        refuse_nan(answer)
        return answer

    def _chain(self, tokens: Tensor, turn: Tensor) -> Tensor:
        tokens, turn = tokens.to(self.model.device), turn.to(self.model.device)
        states, wanted = self._states(tokens, turn), tokens[turn > 0]
        chunk = max(1, _LOGITS // self.vocab_size)
        parts = zip(states.split(chunk), wanted.split(chunk), strict=True)
        losses = [cross_entropy(self._head(s).to(self._dtype), w, reduction="none") for s, w in parts]
        answer = torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)
        answer[turn > 0] = -torch.cat(losses).double()
        return answer

    def _checked(self, tokens: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """What is given without padding, and the padding, both [B, N]."""
        check_given(tokens, given)
        padding = torch.zeros_like(given) if self.pad_id is None else tokens == self.pad_id
        longest = int((~padding).any(0).nonzero().max()) + 1 if bool((~padding).any()) else 0
        refuse_long(longest, self.max_length)
        return given & ~padding, padding
