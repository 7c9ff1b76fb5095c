"""The order-causal reading (``ordered.py``) token by token, with the keys and values of what was read kept.

What was read never changes, so a step costs the rows that are new: the token just read and the next question. A token
takes the next free slot of its row; a question takes the slot behind it, which the next token overwrites.
Slots for N tokens are laid out at the start and never grow. A token read waits for the next question to share its pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.models.layers import first_position, layers_of
from anyorder.models.ordered import placed, refuse_unreadable
from anyorder.models.pairs import token_types, typed_by
from anyorder.models.turned import PAYS, ROWS, turned

_TOKENS = 4096  # tokens read at once, padding included
SPARE = 16  # questions that may be asked on the way, beside the tokens of a full row


@dataclass
class Slots:
    """What a batch of rows has read; written to in place, by the newest :class:`Memory` alone."""

    # Of each layer [B, heads, N + SPARE + 1, d]; the last slot takes what rows without a token write, and is not read.
    keys: list[Tensor]
    values: list[Tensor]
    position: Tensor  # [B, N + SPARE + 1] where the token of each slot stands
    filled: Tensor | int  # [B] slots in use; a number while all rows are alike
    known: Tensor  # [B, N] bool: given, read, or padding
    waiting: tuple[Tensor, Tensor]  # positions (-1: none) and tokens, [B, P], read but not yet run through the model
    types: Tensor | None  # [B, N] token types, for models that tell the sides of a pair apart by them
    turned: list[Any] | None  # layers for passes of some tens of rows (``turned.py``)
    newest: int = 0


@dataclass(frozen=True)
class Memory:
    """A moment of a reading: only the newest of its slots can be asked and read on with."""

    slots: Slots
    number: int = 0

    @property
    def known(self) -> Tensor:
        """[B, N] bool: what was given or read, or is padding."""
        return self.slots.known

    def current(self) -> Slots:
        """The slots, if nothing was read since."""
        if self.number != self.slots.newest:
            raise AnyorderError("this memory has been read on with: use what read() returned, or begin again")
        return self.slots


class Reader:
    """Reads with ``model``, whose weights it shares; tokens and positions are on the model's device.

    Args:
        model: An ``AutoModelForMaskedLM`` of one of :data:`anyorder.models.ordered.FAMILIES`, in eval mode.
        mask_id: The token a question is asked with.
    """

    def __init__(self, model: Any, mask_id: int) -> None:
        refuse_unreadable(model)
        self.model, self.mask_id = model, mask_id
        self.family = layers_of(model)
        self.first, self.closing = first_position(model) or 0, typed_by(model)

    def begin(self, tokens: Tensor, given: Tensor, padding: Tensor) -> Memory:
        """Read the ``given`` [B, N] of ``tokens`` [B, N], which all see each other."""
        (b, n), config, device = tokens.shape, self.model.config, tokens.device
        shape = (b, config.num_attention_heads, n + SPARE + 1, config.hidden_size // config.num_attention_heads)

        def empty() -> list[Tensor]:
            # Zeros: a slot that is masked has weight zero, and zero times what happens to lie there may be NaN.
            return [torch.zeros(shape, dtype=self.model.dtype, device=device) for _ in self.family.layers]

        count = given.sum(1)
        widest = int(count.max()) if b else 0
        alike = bool((count == widest).all())
        nowhere = torch.zeros((b, n + SPARE + 1), dtype=torch.long, device=device)
        none = tokens.new_empty((b, 0))
        types = None if self.closing is None else token_types(tokens, self.closing)
        known = given | padding
        # Copied anew each time: the model may have been trained since.
        layers = turned(self.family.layers) if int((~known).sum()) >= PAYS else None
        slots = Slots(empty(), empty(), nowhere, widest if alike else count, known, (none, none), types, layers)
        place = (~given).to(torch.uint8).sort(dim=1, stable=True).indices[:, :widest]  # the given positions first
        column = torch.arange(widest, device=device)
        step = max(1, _TOKENS // max(widest, 1))
        for start in range(0, b if widest else 0, step):
            rows = slice(start, start + step)
            real = column < count[rows, None]  # [b, G]
            # A row without a given token still sees one slot, so that nothing is NaN.
            visible = (real | (column == 0))[:, None, :].expand(-1, widest, -1)
            ids, at = tokens[rows].gather(1, place[rows]), place[rows]
            slot = 0 if alike else torch.where(real, column, n + SPARE)
            self._run(slots, rows, ids, at, slot, None if alike else visible, widest)
        return Memory(slots)

    def read(self, memory: Memory, positions: Tensor, tokens: Tensor) -> Memory:
        """Read ``tokens`` [B, K] at ``positions`` [B, K], column by column; -1 reads nothing."""
        memory = _after(memory, positions, True)
        most = max(1, _TOKENS // max(1, len(positions)))
        for new in zip(positions.split(most, 1), tokens.split(most, 1), strict=True):
            _wait(memory.slots, *new)
            if memory.slots.waiting[0].shape[1] >= most:  # too many to wait
                self.ask(memory, positions[:, :0])
        return memory

    def read_asking(self, memory: Memory, positions: Tensor, tokens: Tensor, asked: Tensor) -> tuple[Memory, Tensor]:
        """:meth:`read`, and hidden states [B, K, H] of the questions ``asked`` [B, K], each after its column."""
        waiting = memory.current().waiting[0].shape[1]
        memory = _after(memory, positions, True)
        _wait(memory.slots, positions, tokens)
        return memory, self.ask(memory, asked, after=waiting + 1)

    def ask(self, memory: Memory, positions: Tensor, after: int | None = None) -> Tensor:
        """Hidden states [B, K, H] of questions at ``positions`` [B, K]; of -1, anything.

        Args:
            memory: The newest.
            positions: [B, K]
            after: None: each sees all that was read. A number: the first question sees so many columns of what waits,
                and each one column more than the one before it.
        """
        slots = memory.current()
        p, k = slots.waiting[0].shape[1], positions.shape[1]
        sees = [p if after is None else min(p, after + i) for i in range(k)]  # columns of what waits
        at = torch.cat([slots.waiting[0], positions], 1)  # [B, M]: tokens that wait, then questions
        ids = torch.cat([slots.waiting[1], torch.full_like(positions, self.mask_id)], 1)
        if isinstance(slots.filled, int) and bool((at >= 0).all()):
            seen = None if p + k == 1 else _stairs(slots.filled, p, sees, at.device)[None]
            hidden = self._run(slots, slice(0, len(at)), ids, at, slots.filled, seen, p)
            slots.filled += p
        else:
            hidden = self._ask_unlike(slots, at, ids, sees)
        slots.waiting = (slots.waiting[0][:, :0], slots.waiting[1][:, :0])
        return hidden

    def forget(self, memory: Memory, positions: Tensor) -> Memory:
        """``memory`` without the tokens at ``positions`` [B, K], the last that were read; -1 forgets nothing.

        Their slots are free again: what comes next overwrites them.
        """
        slots = memory.current()
        if slots.waiting[0].shape[1]:
            self.ask(memory, positions[:, :0])  # what waits takes its slots
        gone = positions >= 0
        left = slots.filled - gone.sum(1)  # [B]
        slot = left[:, None] + gone.cumsum(1) - 1
        if bool((slots.position.gather(1, slot.clamp(min=0)) != positions)[gone].any()):
            raise AnyorderError("only what was read last can be forgotten: name it in the order in which it was read")
        slots.filled = int(left[0]) if len(left) and bool((left == left[0]).all()) else left
        return _after(memory, positions, False)

    def _ask_unlike(self, slots: Slots, at: Tensor, ids: Tensor, sees: list[int]) -> Tensor:
        """:meth:`ask` where rows have read more or less, or some read or ask nothing (-1)."""
        (b, m), n = at.shape, slots.known.shape[1]
        p = m - len(sees)
        if isinstance(slots.filled, int):
            slots.filled = torch.full((b,), slots.filled, device=at.device)
        real = at >= 0
        count = int(real.any(1).nonzero().max()) + 1 if bool(real.any()) else 0  # rows after these have nothing to do
        at, ids, real, filled = at[:count], ids[:count], real[:count], slots.filled[:count]
        slot = filled[:, None] + real.cumsum(1) - 1  # [b, M]
        waiting = torch.cat([filled[:, None], filled[:, None] + real[:, :p].cumsum(1)], 1)  # [b, 1 + P] read by then
        # A token sees what was read before it, a question what it is to see; -1 sees slot 0, so that nothing is NaN.
        before = torch.where(real, torch.cat([slot[:, :p], waiting[:, sees]], 1), 1)
        column = torch.arange(int(slot.max()) + 1 if count else 0, device=at.device)
        visible = (column < before[..., None]) | (column == slot[..., None])  # and itself: [b, M, S]
        into = torch.where(real, slot, n + SPARE)
        hidden = self._run(slots, slice(0, count), ids, at.clamp(min=0), into, visible, p)
        slots.filled[:count] = waiting[:, -1]
        return torch.cat([hidden, hidden.new_zeros((b - count, *hidden.shape[1:]))])

    def _run(
        self, slots: Slots, rows: slice, ids: Tensor, at: Tensor, slot: Tensor | int, visible: Tensor | None, skip: int
    ) -> Tensor:
        """Run tokens ``ids`` [b, M] at positions ``at`` through the model, their keys and values into ``slot``.

        Args:
            slots: Where keys and values are kept.
            rows: The b rows among those of the slots.
            ids: [b, M]
            at: [b, M]
            slot: [b, M], or a number: M slots from there on, in every row.
            visible: [1 or b, M, S] which of the first S slots each token sees; None: up to the last one written.
            skip: Of how many tokens, the first ones, only keys and values are wanted.

        Returns:
            Hidden states [b, M - skip, H].
        """
        family = self.family
        layers = slots.turned if slots.turned is not None and ids.numel() in ROWS else family.layers
        width = slot + ids.shape[1] if visible is None else visible.shape[-1]
        _write(slots.position, rows, slot, at)
        types = None if slots.types is None else slots.types[rows].gather(1, at)
        hidden = family.embed(ids, at + self.first, types)
        angles = family.angles(at, hidden.dtype)
        scenes = family.scenes(at, slots.position[rows, :width], visible, hidden.dtype)
        for layer, keys, values in zip(layers, slots.keys, slots.values, strict=True):
            query, key, value = family.project(layer, hidden, angles)
            _write(keys.transpose(1, 2), rows, slot, key)
            _write(values.transpose(1, 2), rows, slot, value)
            if layer is layers[-1]:
                hidden, query = hidden[:, skip:], query[:, skip:]
                if skip == ids.shape[1]:
                    return hidden
            seen = keys[rows, :, :width], values[rows, :, :width]
            attended = family.attend(layer, query.transpose(1, 2), *seen, scenes)
            hidden = family.finish(layer, hidden, attended.transpose(1, 2).flatten(2))
        return family.end(hidden)


def _after(memory: Memory, positions: Tensor, known: bool) -> Memory:
    """The memory to go on with when ``positions`` [B, K] have become ``known``, or are no longer."""
    slots = memory.current()
    slots.known = placed(slots.known, positions, known)
    slots.newest += 1
    return Memory(slots, slots.newest)


def _wait(slots: Slots, positions: Tensor, tokens: Tensor) -> None:
    """Let ``tokens`` [B, K] wait behind those that do."""
    slots.waiting = (torch.cat([slots.waiting[0], positions], 1), torch.cat([slots.waiting[1], tokens], 1))


def _stairs(filled: int, p: int, sees: list[int], device: torch.device) -> Tensor:
    """[p + k, S] bool: of S slots a token sees those before it and itself, a question what was read and itself.

    Of the ``p`` tokens that come with them the k questions see the first ``sees`` [k].
    """
    k = len(sees)
    visible = torch.ones((p + k, filled + p + k), dtype=torch.bool, device=device).tril_(filled)
    if k > 1:
        visible[p:, filled + p :] = torch.eye(k, dtype=torch.bool, device=device)
    if min(sees, default=p) < p:
        visible[p:, filled : filled + p] = torch.arange(p, device=device) < torch.tensor(sees, device=device)[:, None]
    return visible


def _write(kept: Tensor, rows: slice, slot: Tensor | int, new: Tensor) -> None:
    """``new`` [b, M, ...] into the slots ``slot`` [b, M], or from number ``slot`` on, of ``kept`` [B, S, ...]."""
    if isinstance(slot, int):
        kept[rows, slot : slot + new.shape[1]] = new
    else:
        kept[rows][torch.arange(len(slot), device=slot.device)[:, None], slot] = new
