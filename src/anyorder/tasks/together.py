"""Rows of one text or of many, generated as one batch: each gets what it gets alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.conditionals.restricted import Restricted, RestrictedOrdered
from anyorder.conditionals.wanted import Wanted
from anyorder.samplers.draw import place
from anyorder.samplers.run import stream
from anyorder.samplers.seeds import Seeds
from anyorder.stats import Record
from anyorder.tasks.rows import batches, padded
from anyorder.tasks.samplers import SamplerOptions, Task
from anyorder.text.compose import Canvas
from anyorder.text.vocabulary import Vocabulary
from anyorder.types import Info

# Rows generated together: enough to make good use of the processor, few enough that texts come soon.
BATCH = 16


@dataclass(frozen=True)
class Generation(Record):
    """One generated text.

    Attributes:
        text: the text, what the user gave verbatim.
        tokens: its token ids, without the special ones around it.
        log_prob: Σ log q of every generated token when it was last drawn, among the tokens allowed there, unwarped.
            For any-order this is the exact log-probability of the text given the prompt, along the order taken; for
            the other samplers, which draw tokens without knowing their neighbours or several times over, an indication.
        passes: rows sent through the model for this text (its share of each step's, rounded up): of one text, a row is
            a pass. :class:`anyorder.types.Info` counts the rows of a whole batch and so calls them rows.
        reading: how the model was read, ``full`` or ``ordered``: a pass is then over two tokens instead of all.
        price: nats that drawing several tokens per step loses in expectation against one per step, by the model's curve
            (:mod:`anyorder.metrics.schedules`); None where it is not known.
    """

    text: str
    tokens: tuple[int, ...]
    log_prob: float
    passes: int
    reading: str = "full"
    price: float | None = None

    def __repr__(self) -> str:
        return f"Generation({self.text!r}, log_prob={self.log_prob:.4f}, passes={self.passes})"

    def cells(self) -> dict[str, str]:
        """A row of a table."""
        return {"log_prob": f"{self.log_prob:.3f}", "passes": str(self.passes), "text": self.text}


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything decided about a text before its first token is drawn; made by :func:`anyorder.tasks.generate.plan`.

    Attributes:
        canvas: given and free tokens.
        vocabulary: to turn tokens into text.
        task: the model, free of the canvas's rules, and what else the sampler is made from.
        options: of the sampler, which makes it.
        steps: how many it makes, at most where it ends by itself.
        samples: texts wanted.
        seed: of all randomness; text number i is drawn from (seed, i).
        reading: ``full`` or ``ordered``.
        price: nats lost by drawing several tokens per step, if known.
    """

    canvas: Canvas
    vocabulary: Vocabulary
    task: Task
    options: SamplerOptions
    steps: int
    samples: int
    seed: int
    reading: str = "full"
    price: float | None = None

    def text(self, tokens: Tensor) -> str:
        """The text of a row of tokens, which may be padded; a mask as the tokenizer writes it."""
        return self.canvas.layout.render(tokens, self.vocabulary)[0]

    def inner(self) -> Tensor:
        """[N] bool: the tokens of the text, without the special ones around it."""
        layout = self.canvas.layout
        inner = ~self.vocabulary.special[layout.tokens] | layout.free
        unknown = self.vocabulary.tokenizer.unk_token_id
        # The special tokens around the text go, an unknown word was let stand.
        inner = inner if unknown is None else inner | (layout.tokens == unknown)
        inner[: self.canvas.given] = False
        return inner


class Row(NamedTuple):
    """One row of a batch: a sample of a text."""

    plan: Plan
    text: int  # the number of the text
    sample: int  # the number of this sample of it


@dataclass(frozen=True)
class Step:
    """One step of a generation; unpacks as ``state, info``.

    Attributes:
        state: what the sampler carries on, ``state.tokens`` [B, N] the texts so far.
        info: which positions were drawn and how likely they were.
        rows: what each row of the batch is.
    """

    state: Any
    info: Info
    rows: Sequence[Row]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.state, self.info))

    def __repr__(self) -> str:
        more = f", {len(self.rows)} texts" if len(self.rows) > 1 else ""
        return f"Step({self.text!r}{more})"

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts so far, ``___`` where nothing stands yet."""
        mask = str(self.rows[0].plan.vocabulary.tokenizer.mask_token)
        return tuple(
            row.plan.text(tokens).replace(mask, "___") for row, tokens in zip(self.rows, self.state.tokens, strict=True)
        )

    @property
    def text(self) -> str:
        """The first of them."""
        return self.texts[0]


class Together:
    """Rows that share a batch: their plans have one sampler, with the same options.

    Attributes:
        rows: what each is.
        tokens: [B, N] the texts so far, shorter ones padded.
        log_prob: [B, N] log q of each token when it was last drawn, 0 where none was.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        layouts = [row.plan.canvas.layout for row in rows]
        self.tokens = padded([layout.tokens for layout in layouts], rows[0].plan.task.conditionals.pad_id)
        self._free = padded([layout.free for layout in layouts], None)
        self.log_prob = torch.zeros(self.tokens.shape, dtype=torch.float64)
        self._passes = torch.zeros(len(rows), dtype=torch.float64)

    def steps(self, wanted: Callable[[], Tensor] | None = None) -> Iterator[Step]:
        """Run them all, yielding after each step.

        ``wanted`` says of each row whether it still is, [B] bool; nothing is asked for one that is not, and what it
        ends with is worth nothing.
        """
        # Made for the text with the most blanks: what a sampler decides by their number it decides for each row.
        most = max(self.rows, key=lambda row: row.plan.task.blanks).plan
        tables = [row.plan.canvas.allowed for row in self.rows]
        task, ordered = most.task, most.task.ordered
        allowed = Restricted(task.conditionals, tables)
        task = replace(
            task,
            conditionals=allowed if wanted is None else Wanted(allowed, wanted),
            ordered=None if ordered is None else RestrictedOrdered(ordered, tables),
        )
        made = most.options.make(task)
        seeds = Seeds.of((row.plan.seed, row.sample) for row in self.rows)
        limit = None if made.sampler.ends else made.steps
        for state, info in stream(made.sampler, self.tokens, self._free, generator=seeds, steps=limit):
            taken = info.positions
            asked = (taken >= 0).any(1)
            self._passes += asked * info.rows / asked.sum().clamp(min=1)
            if info.accepted is not None:
                taken = torch.where(info.accepted[:, None], taken, -1)
            self.log_prob = place(self.log_prob, taken, info.log_prob)
            self.tokens = state.tokens
            yield Step(state, info, self.rows)

    def generations(self) -> Iterator[Generation]:
        """What became of each row."""
        return map(self.generation, range(len(self.rows)))

    def generation(self, i: int) -> Generation:
        """What became of row ``i``."""
        plan, tokens = self.rows[i].plan, self.tokens[i]
        inner = plan.inner()
        ids = tuple(tokens[: len(inner)][inner].tolist())
        # Shares of a step's rows are sums of quotients: not quite whole where they should be.
        passes = math.ceil(float(self._passes[i]) - 1e-6)
        return Generation(plan.text(tokens), ids, float(self.log_prob[i].sum()), passes, plan.reading, plan.price)


def together(plans: Sequence[Plan], size: int = BATCH) -> Iterator[Together]:
    """All samples of all plans in batches of at most ``size`` rows, those of one plan in their order.

    Plans whose sampler would not do the same to each row go one after the other. All are of one model.
    """
    rows = [Row(plan, text, sample) for text, plan in enumerate(plans) for sample in range(plan.samples)]
    if not rows:
        return
    alike = [plan.options.alike(plan.task) for plan in plans]
    keys = [("alone", row.text) if alike[row.text] is None else alike[row.text] for row in rows]
    lengths = [len(row.plan.canvas.layout.tokens) for row in rows]
    for numbers in batches(lengths, plans[0].task.conditionals.pad_id, alike=keys, size=size):
        yield Together([rows[i] for i in numbers])
