"""Generate text in any word order: the logic behind ``lm.generate``, ``lm.stream`` and ``anyorder generate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from anyorder.errors import AnyorderError
from anyorder.models.attention import attention_influence
from anyorder.samplers.warpers import warper as make_warper
from anyorder.tasks.options import GenerateOptions
from anyorder.tasks.reading import reader
from anyorder.tasks.rows import named
from anyorder.tasks.samplers import Task, options_of
from anyorder.tasks.together import BATCH, Generation, Plan, together
from anyorder.text.compose import Frame, drafted, prompted, scattered
from anyorder.text.compose import acrostic as acrostic_canvas
from anyorder.text.vocabulary import vocabulary
from anyorder.types import Info, Ordered

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

Watch = Callable[["Plan", Any, Info, int], None]


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
        conditionals=lm.conditionals,
        ordered=asked if isinstance(asked, Ordered) else None,
        layout=canvas.layout,
        warper=make_warper(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical),
        greedy=top_k == 1,
        attention=lambda: attention_influence(lm.model, lm.conditionals.mask_id),
    )
    return Plan(canvas, words, task, options, options.make(task).steps, samples, seed, how)


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


def generate(lm: MaskedLM, prompts: Sequence[str | None], options: GenerateOptions) -> list[list[Generation]]:
    """``options.samples`` texts around each of ``prompts``, which share the model's batches."""
    plans = plans_of(lm, prompts, options)
    found: list[dict[int, Generation]] = [{} for _ in plans]
    for several in together(plans):
        for _ in several.steps():
            pass
        for row, one in zip(several.rows, several.generations(), strict=True):
            found[row.text][row.sample] = one
    return [[several[i] for i in range(len(several))] for several in found]


def plans_of(lm: MaskedLM, prompts: Sequence[str | None], options: GenerateOptions) -> list[Plan]:
    """A plan for each of several prompts; an error says which one it is about."""
    return [
        named(number if len(prompts) > 1 else None, plan, lm, **{**vars(options), "prompt": prompt})
        for number, prompt in enumerate(prompts, 1)
    ]
