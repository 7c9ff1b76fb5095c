"""log q(x_t | observed) of any Hugging Face masked LM, at the asked positions only and within a memory budget."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from anyorder.errors import AnyorderError
from anyorder.models.families import make_deterministic, make_ready, takes_padding, width_of
from anyorder.models.heads import head_of
from anyorder.models.narrow import narrow
from anyorder.models.pairs import token_types, typed_by
from anyorder.models.products import faster

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

TOKEN_BUDGET = 2048  # tokens of one micro-batch, padding included; on a CPU more is not faster, only larger
_PASS = 128  # tokens that cost as much time as a pass does by itself (a model of 6M: 160, a larger one fewer)
_LOGITS = 2**24  # logits worked out at once: 64 MB in float32
_FEW_LOGITS = 2**22  # the same where none is kept: few enough to stay near the processor, many for one matrix product


@functools.cache
def _say_once(model: str) -> None:
    """Log, once per process and architecture, that it runs in full."""
    logger.warning(
        "%s has no known split into backbone and LM head: every position is worked out, not only those asked", model
    )


class ModelConditionals:
    """The conditionals of ``model``; see :class:`anyorder.types.Conditionals`.

    The backbone runs once over each distinct row; the LM head (families in ``heads.py``) and the last feed-forward
    (``narrow.py``) run only where something is asked. Rows are sorted by length and cut into micro-batches of at most
    ``token_budget`` tokens, so memory does not grow with the number of rows beyond the answer itself. Families whose
    answers change with padding (``families.py``) get micro-batches of one length.

    Args:
        model: an ``AutoModelForMaskedLM``, or a :class:`anyorder.models.wrapped.Wrapped`, in eval mode.
        mask_id: the id of the mask token.
        pad_id: the id shorter rows end in; it is never attended to. None: every row is full.
        max_length: the longest row the model can take, special tokens included.
        token_budget: tokens of one micro-batch. More is faster on a GPU and takes more memory.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        mask_id: int,
        pad_id: int | None,
        max_length: int,
        token_budget: int = TOKEN_BUDGET,
    ) -> None:
        self.model = model
        self.mask_id = mask_id
        self.pad_id = pad_id
        self.max_length = max_length
        self.token_budget = token_budget
        make_deterministic(model)
        self._fast = faster(model)
        self._head = head_of(model)
        self._narrow = None if self._head is None else narrow(self._fast)
        self._pads = takes_padding(model)
        self._closing = typed_by(model)
        if self._head is None:
            _say_once(type(getattr(model, "inner", model)).__name__)
        self.vocab_size: int = width_of(model)

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q(x_t | observed), [B, K, V] in float32 on the device of ``tokens``."""
        batch, width = positions.shape
        # Allocated outside inference mode, so that the caller may change it in place.
        answer = torch.empty((batch * width, self.vocab_size), device=tokens.device)
        answer.index_fill_(0, (positions.flatten() < 0).nonzero().squeeze(1), -math.log(self.vocab_size))
        with torch.inference_mode():
            for states, inverse, slot in self._states(tokens, positions):
                self._write(answer, states, inverse, slot)
        return answer.view(batch, width, self.vocab_size)

    def of_tokens(self, tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        """log q of the ``wanted`` token [B, K] at each position, 0 where it is -1: [B, K], never holding all V."""
        wanted = wanted.flatten()
        answer = torch.zeros(len(wanted), device=tokens.device)
        chunk = max(1, _FEW_LOGITS // self.vocab_size)
        with torch.inference_mode():
            for states, inverse, slot in self._states(tokens, positions):
                states = states[inverse.to(states.device)]
                for part, place in zip(states.split(chunk), slot.split(chunk), strict=True):
                    loss = cross_entropy(self._logits(part), wanted[place].to(part.device), reduction="none")
                    answer[place] = -loss.to(answer.device)
        refuse_nan(answer)
        return answer.view_as(positions)

    @torch.inference_mode()
    def logit_rows(self, rows: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """(log q [n, V], log z [n]) at one position of rows [n, N] of one length; see ``types.LogitRows``."""
        # Every token is attended to, padding too: in rows of one length it can only be a value of its own.
        asked = torch.arange(len(rows), device=rows.device) * rows.shape[1] + position
        logits = self._logits(self._run(rows, asked, None))
        # log_softmax takes a third of logsumexp's time; the best token, which is never -inf, gives the normaliser away.
        log_q = torch.log_softmax(logits, -1)
        log_z = logits.amax(-1) - log_q.amax(-1)
        refuse_nan(log_z)
        return log_q, log_z

    def _states(self, tokens: Tensor, positions: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The backbone's answers, a micro-batch at a time: states [U, H] of its different questions, the state [Q] each
        question takes, and the place [Q] of each question among all B*K.
        """
        asked = positions >= 0
        row = torch.where(asked)[0]  # [Q] the row of each question
        if row.numel() == 0:
            return
        position = positions[asked]  # [Q]
        slot = asked.flatten().nonzero().squeeze(1)  # [Q] where its answer goes
        lengths = self._check(tokens, row, position)

        # Samplers and scorers often ask about one text several times: each distinct row is run once.
        used, row = torch.unique(row, return_inverse=True)
        rows, inverse = torch.unique(tokens[used], dim=0, return_inverse=True)
        length = torch.zeros(len(rows), dtype=torch.long, device=tokens.device)
        length[inverse] = lengths[used]
        # `unique` sorts rows by their tokens; as they came, their answers lie side by side (see `_write`).
        came = torch.full_like(length, len(used)).scatter_reduce_(0, inverse, torch.arange(len(used)).to(row), "amin")
        as_came = torch.argsort(came)
        by_length = as_came[torch.argsort(length[as_came], stable=True)]
        rows, length = rows[by_length], length[by_length]
        row = torch.argsort(by_length)[inverse[row]]

        order = torch.argsort(row, stable=True)  # questions in the order of the rows that answer them
        row, position, slot = row[order], position[order], slot[order]
        for start, stop in micro_batches(length.tolist(), self.token_budget, alike=not self._pads):
            first, last = torch.searchsorted(row, torch.tensor([start, stop], device=row.device)).tolist()
            part = rows[start:stop, : int(length[stop - 1])]
            question = (row[first:last] - start) * part.shape[1] + position[first:last]
            # The same question of the same text needs the head once.
            question, inverse = torch.unique(question, return_inverse=True)
            mask = None if self.pad_id is None or not self._pads else part != self.pad_id
            yield self._run(part, question, mask), inverse, slot[first:last]

    def _check(self, tokens: Tensor, row: Tensor, position: Tensor) -> Tensor:
        """Refuse questions that have no answer; returns the true length of each row, [B]."""
        n = tokens.shape[1]
        if int(position.max()) >= n:
            raise AnyorderError(f"position {int(position.max())} asked of rows of {n} tokens: positions count from 0")
        if self.pad_id is None:
            lengths = torch.full((len(tokens),), n, device=tokens.device)
        else:
            real = tokens != self.pad_id
            lengths = (real * torch.arange(1, n + 1, device=tokens.device)).amax(1)
            if not bool(real[row, position].all()):
                raise AnyorderError("a position was asked that holds padding: ask -1 where a row has no question")
        refuse_long(int(lengths[row].max()), self.max_length)
        return lengths

    def _run(self, tokens: Tensor, question: Tensor, mask: Tensor | None) -> Tensor:
        """What the head needs, or without one the logits, at flat positions ``question`` of one micro-batch [b, n]."""
        question, tokens = question.to(self.model.device), tokens.to(self.model.device)
        # Attention without a mask is faster; DeBERTa-v2 subtracts the mask from 1, which a bool does not allow.
        mask = None if mask is None or bool(mask.all()) else mask.long().to(self.model.device)
        make_ready(self._fast)
        inputs = {"input_ids": tokens, "attention_mask": mask}
        if self._closing is not None:
            inputs["token_type_ids"] = token_types(tokens, self._closing)
        if self._narrow is not None:
            return self._narrow(**inputs, asked=question)[0]  # [U, H]
        if self._head is not None:
            return self._fast.base_model(**inputs)[0].flatten(0, 1)[question]
        logits = self._fast(**inputs).logits
        # [U, V]. Perceiver answers for all the positions it has, whatever the length.
        return logits[:, : tokens.shape[1]].flatten(0, 1)[question]

    def _logits(self, states: Tensor) -> Tensor:
        """[U, H] -> [U, V] in float32."""
        logits = states if self._head is None else self._head(self._fast, states)
        if logits.shape[-1] != self.vocab_size:
            raise AnyorderError(
                f"the model reads {self.vocab_size} tokens and answers for {logits.shape[-1]}: it is no masked LM "
                "over one vocabulary"
            )
        return logits.float()

    def _write(self, answer: Tensor, states: Tensor, inverse: Tensor, slot: Tensor) -> None:
        """Write log q of one micro-batch's questions at ``slot``."""
        once = len(states) == len(slot)  # nothing is asked twice, so the answers can be worked out in their order
        if once:
            states = states[inverse.to(states.device)]
        # Answers that lie side by side are written where they belong; copying them would take as long as the softmax.
        in_place = once and answer.device == states.device and bool((slot.diff() == 1).all())
        chunk = max(1, _LOGITS // self.vocab_size)
        for first in range(0, len(states), chunk):
            part = states[first : first + chunk]
            if in_place:
                start = int(slot[first])
                log_q = torch.log_softmax(self._logits(part), -1, out=answer[start : start + len(part)])
            else:
                log_q = torch.log_softmax(self._logits(part), -1).to(answer.device)
            refuse_nan(log_q[:, 0])  # one NaN among the logits makes the whole row NaN
            if once and not in_place:
                answer.index_copy_(0, slot[first : first + chunk], log_q)
            elif not once:
                mine = (inverse >= first) & (inverse < first + chunk)
                answer[slot[mine]] = log_q[inverse[mine] - first]


def micro_batches(lengths: list[int], budget: int, alike: bool = False) -> list[tuple[int, int]]:
    """Cut rows sorted by length into [start, stop) ranges of at most ``budget`` padded tokens, or of one row.

    Fewer passes mean more padding: of all ways to cut where the length changes, that of least (passes · ``_PASS`` +
    padded tokens), found by dynamic programming; what exceeds the budget is cut evenly. With ``alike`` none is padded.
    """
    ends = [i for i in range(1, len(lengths) + 1) if i == len(lengths) or lengths[i] > lengths[i - 1]]
    best: dict[int, tuple[float, int]] = {0: (0.0, 0)}  # rows before a cut -> (least cost, the cut before)
    for number, stop in enumerate(ends):
        longest = lengths[stop - 1]
        most = max(1, budget // longest)
        starts = [0, *ends[:number]]
        best[stop] = min(
            (best[start][0] + -(-(stop - start) // most) * _PASS + (stop - start) * longest, start)
            for start in (starts[-1:] if alike else starts)
        )
    cuts: list[tuple[int, int]] = []
    stop = len(lengths)
    while stop:
        start = best[stop][1]
        passes = -(-(stop - start) // max(1, budget // lengths[stop - 1]))
        edges = [start + (stop - start) * i // passes for i in range(passes + 1)]
        cuts[:0] = pairwise(edges)
        stop = start
    return cuts


def refuse_long(longest: int, most: int) -> None:
    """A text longer than the model holds."""
    if longest > most:
        raise AnyorderError(
            f"a text of {longest} tokens is longer than the model's maximum of {most}: "
            "shorten or split it, or choose a model that takes longer texts"
        )


def refuse_nan(log_q: Tensor) -> None:
    """Answers that are no numbers."""
    if bool(log_q.isnan().any()):
        raise AnyorderError(
            "the model answers NaN: its arithmetic overflows in this dtype (load it in float32), or it cannot "
            "read a text without a single observed token (ESM: keep its special tokens)"
        )
