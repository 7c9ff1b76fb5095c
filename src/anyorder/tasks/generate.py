"""Generate text in any word order: the logic behind ``lm.generate``, ``lm.stream`` and ``anyorder generate``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from anyorder.errors import AnyorderError
from anyorder.models.attention import attention_influence
from anyorder.options import takes_only
from anyorder.samplers.warpers import warper
from anyorder.tasks.given import length_laws, openings, with_given
from anyorder.tasks.options import SAID, GenerateOptions
from anyorder.tasks.reading import reader
from anyorder.tasks.rows import named
from anyorder.tasks.samplers import Task, options_of
from anyorder.tasks.together import BATCH, Generation, Plan, together
from anyorder.text.compose import Canvas, Frame, acrostic, drafted, prompted, scattered
from anyorder.text.vocabulary import Vocabulary, vocabulary
from anyorder.types import Info, Ordered

if TYPE_CHECKING:
    import numpy as np

    from anyorder.metrics.curve import Curve
    from anyorder.tasks.lm import MaskedLM

Watch = Callable[["Plan", Any, Info, int], None]


@takes_only(GenerateOptions)
def plan(lm: MaskedLM, said: GenerateOptions) -> Plan:
    """Check everything and decide what will be done; options as :meth:`anyorder.MaskedLM.generate`."""
    frame = Frame(vocabulary(lm.tokenizer, lm.conditionals.vocab_size), lm.max_length, said.allow_unknown)
    prompt = said.prompt is not None or said.begin is not None or said.end is not None
    free = not (prompt or said.length or said.scatter or said.acrostic or said.draft)
    if said.given is not None and free and lm.length_head is not None:
        said = replace(said, length=int(length_laws(lm, openings(lm, [said.given]))[0].argmax()))
    if prompt + sum(one is not None for one in (said.scatter, said.acrostic, said.draft)) > 1:
        raise AnyorderError(
            "a prompt (with its begin and end), scattered words, an acrostic and a draft exclude each other"
        )
    if said.scatter is not None:
        canvas = scattered(frame, said.scatter, said.length, torch.Generator().manual_seed(said.seed))
    elif said.acrostic is not None:
        canvas = acrostic(frame, said.acrostic, said.length)
    elif said.draft is not None:
        canvas = drafted(frame, said.draft, said.length)
    else:
        canvas = prompted(frame, said.prompt, said.begin, said.end, said.length)
    if said.given is not None:
        canvas = with_given(lm, canvas, said.given)
    return plan_on(lm, canvas, said)


def plan_on(lm: MaskedLM, canvas: Canvas, said: GenerateOptions) -> Plan:
    """The same on a canvas that is there already: what ``said`` says of the sampler, the draws and the seed."""
    vocab = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    name, options = options_of(said.sampler, {one: getattr(said, one) for one in SAID})
    asked, how = reader(lm, said.reading, f"the sampler {name!r}", options.in_order)
    task = Task(
        conditionals=lm.conditionals,
        ordered=asked if isinstance(asked, Ordered) else None,
        layout=canvas.layout,
        warper=warper(
            temperature=said.temperature, top_k=said.top_k, top_p=said.top_p, min_p=said.min_p, typical_p=said.typical
        ),
        greedy=said.top_k == 1,
        attention=lambda: attention_influence(lm.model, lm.conditionals.mask_id),
        losses=None if lm.curve is None else _losses(lm.curve, canvas, vocab),
    )
    made = options.make(task)
    if said.steps is not None and made.steps < said.steps:
        warnings.warn(f"{said.steps} steps for {task.blanks} blanks: {task.blanks} are enough", stacklevel=2)
    return Plan(canvas, vocab, task, options, made.steps, said.samples, said.seed, how, made.price)


def _losses(curve: Curve, canvas: Canvas, vocab: Vocabulary) -> np.ndarray:
    """[blanks] the loss of a hidden token at each number of revealed ones."""
    layout = canvas.layout
    given = int((~vocab.special[layout.tokens] & ~layout.free).sum())
    return curve.losses(given + int(layout.free.sum()), given)


def generations(task: Plan, watch: Watch | None = None, batch: int = BATCH) -> Iterator[Generation]:
    """Generate, a batch at a time, and yield each text as its batch is finished.

    Args:
        task: From :func:`plan`.
        watch: Called after every step with (plan, state, info, texts finished before this batch).
        batch: Rows generated together; the texts are the same whatever it is.
    """
    for several in together([task], batch):
        for step in several.steps():
            if watch is not None:
                watch(task, step.state, step.info, several.rows[0].sample)
        yield from several.generations()


def generate(
    lm: MaskedLM, prompts: Sequence[str | None], options: GenerateOptions, first: int | None = None
) -> list[list[Generation]]:
    """``options.samples`` texts around each of ``prompts``, which share the model's batches.

    With ``first``, the number of the first prompt in a file, an empty prompt is an empty line and has no texts.
    """
    asked = [number for number, prompt in enumerate(prompts) if first is None or (prompt or "").strip()]
    plans = plans_of(lm, [prompts[number] for number in asked], options, [(first or 1) + number for number in asked])
    found: list[list[Generation]] = [[] for _ in prompts]
    for several in together(plans):
        for _ in several.steps():
            pass
        for row, one in zip(several.rows, several.generations(), strict=True):
            found[asked[row.text]].append(one)  # the samples of one text come in their order
    return found


def plans_of(
    lm: MaskedLM, prompts: Sequence[str | None], options: GenerateOptions, numbers: Sequence[int] | None = None
) -> list[Plan]:
    """A plan for each of several prompts; an error says which one it is about, by ``numbers`` or counted from 1."""
    return [
        named(number if len(prompts) > 1 else None, plan, lm, **{**vars(options), "prompt": prompt})
        for number, prompt in zip(numbers or range(1, len(prompts) + 1), prompts, strict=True)
    ]
