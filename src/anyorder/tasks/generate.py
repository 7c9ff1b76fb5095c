"""Generate text in any word order: the logic behind ``lm.generate``, ``lm.stream`` and ``anyorder generate``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from anyorder.conditionals.restricted import Restricted, RestrictedOrdered
from anyorder.errors import AnyorderError
from anyorder.models.attention import attention_influence
from anyorder.samplers.draw import place
from anyorder.samplers.run import stream as run_stream
from anyorder.samplers.seeds import Seeds
from anyorder.samplers.warpers import warper as make_warper
from anyorder.tasks.reading import reader
from anyorder.tasks.samplers import Task, options_of
from anyorder.text.compose import Canvas, Frame, drafted, prompted, scattered
from anyorder.text.compose import acrostic as acrostic_canvas
from anyorder.text.vocabulary import Vocabulary, vocabulary
from anyorder.types import Info, Ordered, Sampler, State

if TYPE_CHECKING:
    import numpy as np

    from anyorder.metrics.curve import Curve
    from anyorder.tasks.lm import MaskedLM

# Rows generated together: enough to make good use of the processor, few enough that texts come soon.
BATCH = 16

Watch = Callable[["Plan", Any, Info, int], None]


@dataclass(frozen=True)
class Generation:
    """One generated text.

    Attributes:
        text: the text, what the user gave verbatim.
        tokens: its token ids, without the special ones around it.
        log_prob: Σ log q of every generated token when it was last drawn, among the tokens allowed there, unwarped.
            For any-order this is the exact log-probability of the text given the prompt, along the order taken; for
            the other samplers, which draw tokens without knowing their neighbours or several times over, an indication.
        passes: rows sent through the model for this text (the mean over its batch, rounded up): of one text, a row is
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

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return {**asdict(self), "tokens": list(self.tokens)}


@dataclass(frozen=True)
class Step:
    """One step of a generation; unpacks as ``state, info``.

    Attributes:
        state: what the sampler carries on, ``state.tokens`` [B, N] the texts so far.
        info: which positions were drawn and how likely they were.
        task: what is being generated.
    """

    state: Any
    info: Info
    task: Plan

    def __iter__(self) -> Iterator[Any]:
        return iter((self.state, self.info))

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts so far, ``___`` where nothing stands yet."""
        words, where = self.task.vocabulary, self.task.canvas.layout
        mask = str(words.tokenizer.mask_token)
        return tuple(where.render(row, words)[0].replace(mask, "___") for row in self.state.tokens)

    @property
    def text(self) -> str:
        """The first of them."""
        return self.texts[0]


@dataclass(frozen=True)
class Plan:
    """Everything decided before the first token is drawn.

    Attributes:
        canvas: given and free tokens.
        vocabulary: to turn tokens into text.
        sampler: over a batch of rows.
        steps: how many it makes, at most where it ends by itself.
        samples: texts wanted.
        seed: of all randomness; text number i is drawn from (seed, i).
        reading: ``full`` or ``ordered``.
        price: nats lost by drawing several tokens per step, if known.
    """

    canvas: Canvas
    vocabulary: Vocabulary
    sampler: Sampler[Any]
    steps: int
    samples: int
    seed: int
    reading: str = "full"
    price: float | None = None

    def rows(self, numbers: Sequence[int]) -> Iterator[tuple[State, Info]]:
        """Run the texts of these numbers from the canvas together, yielding (state, info) after each step."""
        where, count = self.canvas.layout, len(numbers)
        tokens, free = where.tokens.repeat(count, 1), where.free.repeat(count, 1)
        steps = None if self.sampler.ends else self.steps
        return run_stream(self.sampler, tokens, free, generator=Seeds(self.seed, numbers), steps=steps)


def plan(
    lm: MaskedLM,
    prompt: str | None = None,
    *,
    length: int | None = None,
    begin: str | None = None,
    end: str | None = None,
    scatter: str | None = None,
    acrostic: str | None = None,
    order: str | Sequence[int] | None = None,
    steps: int | None = None,
    sampler: str | None = None,
    block: int | None = None,
    mode: str | None = None,
    blocks: int | None = None,
    threshold: float | None = None,
    sharpness: float | None = None,
    influence: str | None = None,
    pairs: bool = False,
    schedule: str | None = None,
    epsilon: float | None = None,
    start: str | None = None,
    draft: str | None = None,
    reading: str = "auto",
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical: float | None = None,
    samples: int = 1,
    seed: int = 0,
    allow_unknown: bool = False,
) -> Plan:
    """Check every argument and decide what will be done; arguments as :meth:`anyorder.MaskedLM.generate`.

    Those of the samplers are declared in :mod:`anyorder.tasks.samplers`; here None and False mean "not given".
    """
    if samples < 1:
        raise AnyorderError(f"at least one sample is needed, not {samples}")
    of_sampler = {
        "order": order, "steps": steps, "block": block, "mode": mode, "blocks": blocks,
        "threshold": threshold, "sharpness": sharpness, "influence": influence, "pairs": pairs,
        "schedule": schedule, "epsilon": epsilon, "start": start, "draft": draft,
    }  # fmt: skip
    name, options = options_of(sampler, of_sampler)
    words = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    frame = Frame(words, lm.max_length, allow_unknown)
    shapes = [prompt is not None or begin is not None or end is not None, scatter is not None, acrostic is not None]
    if sum(shapes) + (draft is not None) > 1:
        raise AnyorderError(
            "a prompt (with its begin and end), scattered words, an acrostic and a draft exclude each other"
        )
    if scatter is not None:
        canvas = scattered(frame, scatter, length, torch.Generator().manual_seed(seed))
    elif acrostic is not None:
        canvas = acrostic_canvas(frame, acrostic, length)
    elif draft is not None:
        canvas = drafted(frame, draft, length)
    else:
        canvas = prompted(frame, prompt, begin, end, length)
    asked, how = reader(lm, reading, f"the sampler {name!r}", options.in_order)
    task = Task(
        conditionals=Restricted(lm.conditionals, canvas.allowed),
        ordered=RestrictedOrdered(asked, canvas.allowed) if isinstance(asked, Ordered) else None,
        layout=canvas.layout,
        warper=make_warper(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical),
        greedy=top_k == 1,
        attention=lambda: attention_influence(lm.model, lm.conditionals.mask_id),
        losses=None if lm.curve is None else _losses(lm.curve, canvas, words),
    )
    made = options.make(task)
    return Plan(canvas, words, made.sampler, made.steps, samples, seed, how, made.price)


def _losses(curve: Curve, canvas: Canvas, words: Vocabulary) -> np.ndarray:
    """[blanks] the loss of a hidden token at each number of revealed ones."""
    where = canvas.layout
    given = int((~words.special[where.tokens] & ~where.free).sum())
    return curve.losses(given + int(where.free.sum()), given)


def generations(task: Plan, watch: Watch | None = None, batch: int = BATCH) -> Iterator[Generation]:
    """Generate, a batch at a time, and yield each text as its batch is finished.

    Args:
        task: From :func:`plan`.
        watch: Called after every step with (plan, state, info, texts finished before this batch).
        batch: Rows generated together; the texts are the same whatever it is.
    """
    where = task.canvas.layout
    inner = ~task.vocabulary.special[where.tokens] | where.free
    unknown = task.vocabulary.tokenizer.unk_token_id
    if unknown is not None:
        inner |= where.tokens == unknown  # the special tokens around the text go, an unknown word was let stand
    for start in range(0, task.samples, batch):
        count = min(batch, task.samples - start)
        tokens = where.tokens.repeat(count, 1)
        log_prob = torch.zeros(tokens.shape, dtype=torch.float64)
        passes = 0
        for state, info in task.rows(range(start, start + count)):
            taken = info.positions
            if info.accepted is not None:
                taken = torch.where(info.accepted[:, None], taken, -1)
            log_prob = place(log_prob, taken, info.log_prob)
            passes += info.rows
            tokens = state.tokens
            if watch is not None:
                watch(task, state, info, start)
        each = math.ceil(passes / count)
        for row, value in zip(tokens, log_prob.sum(1).tolist(), strict=True):
            text, _ = where.render(row, task.vocabulary)
            yield Generation(text, tuple(row[inner].tolist()), value, each, task.reading, task.price)
