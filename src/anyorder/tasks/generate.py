"""Generate text in any word order: the logic behind ``lm.generate``, ``lm.stream`` and ``anyorder generate``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.conditionals.allowed import Allowed, AllowedOrdered
from anyorder.errors import AnyorderError, choose
from anyorder.joints.pair_draw import pair_draw
from anyorder.models.attention import attention_influence
from anyorder.samplers.adaptive import Influence, adaptive
from anyorder.samplers.any_order import any_order
from anyorder.samplers.draw import place
from anyorder.samplers.gibbs import gibbs
from anyorder.samplers.metropolis import metropolis
from anyorder.samplers.parallel import COMMITS, parallel
from anyorder.samplers.refine import refine
from anyorder.samplers.run import stream as run_stream
from anyorder.samplers.seeds import Seeds
from anyorder.samplers.warpers import warper as make_warper
from anyorder.tasks.fill import numbered
from anyorder.tasks.reading import reader
from anyorder.text.compose import Canvas, Frame, prompted, scattered
from anyorder.text.compose import acrostic as acrostic_canvas
from anyorder.text.vocabulary import Vocabulary, vocabulary
from anyorder.types import Conditionals, Info, Ordered, Sampler, State

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

SAMPLERS = ("any-order", "parallel", "gibbs", "refine", "metropolis", "adaptive")
INFLUENCES = ("tokens", "attention")  # what the adaptive sampler measures dependence by
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
    """

    text: str
    tokens: tuple[int, ...]
    log_prob: float
    passes: int
    reading: str = "full"

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return {**asdict(self), "tokens": list(self.tokens)}


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
    """

    canvas: Canvas
    vocabulary: Vocabulary
    sampler: Sampler[Any]
    steps: int
    samples: int
    seed: int
    reading: str = "full"

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
    mode: str = "parallel",
    influence: str = "tokens",
    pairs: bool = False,
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
    """Check every argument and decide what will be done; arguments as :meth:`anyorder.MaskedLM.generate`."""
    if samples < 1:
        raise AnyorderError(f"at least one sample is needed, not {samples}")
    words = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    frame = Frame(words, lm.max_length, allow_unknown)
    shapes = [prompt is not None or begin is not None or end is not None, scatter is not None, acrostic is not None]
    if sum(shapes) > 1:
        raise AnyorderError("a prompt (with its begin and end), scattered words and an acrostic exclude each other")
    if scatter is not None:
        canvas = scattered(frame, scatter, length, torch.Generator().manual_seed(seed))
    elif acrostic is not None:
        canvas = acrostic_canvas(frame, acrostic, length)
    else:
        canvas = prompted(frame, prompt, begin, end, length)
    name = sampler if sampler is not None else ("parallel" if steps is not None or pairs else "any-order")
    choose(name, SAMPLERS, "sampler")
    warper = make_warper(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical)
    choose(influence, INFLUENCES, "influence")
    by_attention = attention_influence(lm.model, lm.conditionals.mask_id) if influence == "attention" else None
    allowed = Allowed(lm.conditionals, canvas.allowed)
    asked, how = reader(lm, reading, f"the sampler {name!r}", name == "any-order")
    ordered = AllowedOrdered(asked, canvas.allowed) if isinstance(asked, Ordered) else None
    options = SamplerOptions(
        allowed, ordered, canvas, order, steps, block, mode, by_attention, pairs, warper, top_k == 1
    )
    chosen, count = options.make(name)
    return Plan(canvas, words, chosen, count, samples, seed, how)


@dataclass(frozen=True)
class SamplerOptions:
    """What a user may say about a sampler, whichever it is."""

    conditionals: Conditionals
    ordered: Ordered | None  # the same read in order, if it is to be
    canvas: Canvas
    order: str | Sequence[int] | None
    steps: int | None
    block: int | None
    mode: str
    influence: Influence | None
    pairs: bool
    warper: Callable[[Tensor, Tensor], Tensor] | None
    greedy: bool

    @property
    def blanks(self) -> int:
        """Tokens to generate."""
        return int(self.canvas.layout.free.sum())

    def make(self, name: str) -> tuple[Sampler[Any], int]:
        """The sampler, and the steps it makes."""
        if self.steps is not None and self.steps < 1:
            raise AnyorderError(f"at least one step is needed, not {self.steps}: raise --steps")
        if self.order is not None and name not in ("any-order", "parallel"):
            raise AnyorderError(
                f"the sampler {name!r} has no order: leave --order out, or choose any-order or parallel"
            )
        if self.pairs and name != "parallel":
            raise AnyorderError(f"the sampler {name!r} draws no pairs: leave --pairs out, or choose parallel")
        if name == "any-order":
            if self._clamped() < self.blanks:
                raise AnyorderError(
                    f"any-order fills one blank a step, {self.blanks} in all: leave --steps out, or choose parallel"
                )
            order = "random" if self.order is None else numbered(self.order, self.canvas.layout)
            return any_order(self.ordered or self.conditionals, order=order, warper=self.warper), self.blanks
        if name == "parallel":
            commit = "confidence" if self.order is None else self.order
            if not isinstance(commit, str) or commit not in COMMITS:
                raise AnyorderError(
                    f"parallel commits by {', '.join(COMMITS)}, not in the order {commit!r}: choose one"
                )
            steps = self._clamped(16)
            jointly = pair_draw(self.conditionals) if self.pairs else None
            chosen = parallel(self.conditionals, steps=steps, commit=commit, warper=self.warper, pair_draw=jointly)
            return chosen, steps
        if name == "refine":
            steps = self._clamped(10)
            return refine(self.conditionals, steps=steps, greedy=self.greedy, warper=self.warper), steps
        return self._chain(name)

    def _clamped(self, usual: int | None = None) -> int:
        """Steps asked for, or the usual number, but no more than there are blanks."""
        if self.steps is None:
            return min(usual or self.blanks, self.blanks)
        if self.steps > self.blanks:
            warnings.warn(f"{self.steps} steps for {self.blanks} blanks: {self.blanks} are enough", stacklevel=2)
        return min(self.steps, self.blanks)

    def _chain(self, name: str) -> tuple[Sampler[Any], int]:
        """Chains fill their masks first and then go on for as long as they are told."""
        if name == "gibbs":
            block = self.block or max(1, self.blanks // 16)
            chain = gibbs(self.conditionals, block=block, mode=self.mode, warper=self.warper)
            filling = math.ceil(self.blanks / block)
            usual = 3 * filling  # two sweeps after the first draft
        elif name == "metropolis":
            chain, filling = metropolis(self.conditionals, warper=self.warper), self.blanks
            usual = 2 * filling
        else:
            block = self.block or 2
            chain = adaptive(self.conditionals, block=block, influence=self.influence, warper=self.warper)
            filling = math.ceil(self.blanks / block)
            usual = 2 * filling
        steps = usual if self.steps is None else self.steps
        if steps < filling:
            raise AnyorderError(
                f"{name} needs {filling} steps to fill {self.blanks} blanks once: raise --steps"
                + ("" if name == "metropolis" else " or --block")
            )
        return chain, steps


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
            yield Generation(text, tuple(row[inner].tolist()), value, each, task.reading)
