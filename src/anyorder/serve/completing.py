"""Text before, text after, and what comes between: what OpenAI's completions and llama.cpp's infill share."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import Request

from anyorder.errors import AnyorderError
from anyorder.options import LARGEST_SEED
from anyorder.serve.costs import cost
from anyorder.serve.jobs import Job
from anyorder.tasks.generate import plan_on
from anyorder.tasks.lm import MaskedLM
from anyorder.tasks.options import SAID, GenerateOptions
from anyorder.tasks.samplers import AnyOrder, Parallel, options_of
from anyorder.tasks.together import Plan
from anyorder.text.compose import Frame, between
from anyorder.text.vocabulary import vocabulary

HELD = 2  # words at the end of what is committed that the next token may still join


def completion_job(
    request: Request,
    before: Sequence[str],
    after: str,
    count: int,
    options: GenerateOptions,
    watched: bool,
    **extra: Any,
) -> Job:
    """The job of generating ``count`` tokens between each of ``before`` and ``after``."""
    state = request.app.state
    options = replace(options, length=None, allow_unknown=True)
    costs = cost(state.lm, "generate", [f"{one} {after}" + "____" * count for one in before], options)
    key = replace(options, seed=0, samples=1)
    extra = {"after": after, "count": count, **extra}
    return Job(
        "generate", before, options, key, costs, state.settings.seconds, watched=watched, single=False, extra=extra
    )


def completion_plans(lm: MaskedLM, job: Job) -> list[Plan]:
    """A plan for each text of such a job."""
    assert isinstance(job.options, GenerateOptions)
    frame = Frame(vocabulary(lm.tokenizer, lm.conditionals.vocab_size), lm.max_length, True)
    after, count = job.extra["after"], job.extra["count"]
    return [plan_on(lm, between(frame, before or "", after, count), job.options) for before in job.texts]


def drawing(
    *, temperature: float, top_p: float | None, seed: int | None, samples: int, order: Any = None, sampler: Any = None,
    steps: Any = None, schedule: Any = None, top_k: int | None = None,
) -> GenerateOptions:  # fmt: skip
    """How to draw, as others' clients say it: no seed is a fresh one, no temperature the likeliest token."""
    if order is None and sampler is None and steps is None and schedule is None:
        order = "left-to-right"  # as those clients expect of a stream
    if seed is not None and not 0 <= seed <= LARGEST_SEED:
        raise AnyorderError(f"seed must be between 0 and {LARGEST_SEED}, not {seed}")
    return GenerateOptions(
        order=tuple(order) if isinstance(order, list) else order,
        sampler=sampler,
        steps=steps,
        schedule=schedule,
        temperature=temperature or 1.0,
        top_k=1 if temperature == 0 else top_k,
        top_p=None if top_p in (None, 1, 1.0) else top_p,
        samples=samples,
        seed=secrets.randbelow(LARGEST_SEED) if seed is None else seed,
    )


def between_text(whole: str, before: str, after: str) -> str:
    """What was generated, with the spaces that join it to both sides."""
    end = len(whole) - len(after) if after and whole.endswith(after) else len(whole)
    return whole[len(before) : end] if whole.startswith(before) else whole[len(before.rstrip()) : end]


class Growing:
    """The part of a completion that is committed from its beginning on, handed out as it grows.

    A token to come may still join the last word (``##s``, an apostrophe), so that the last words are held back;
    samplers that come back to what they wrote commit nothing before the end.
    """

    def __init__(self, before: str, after: str) -> None:
        self._before, self._after = before, after
        self._said = ""

    def more(self, text: str) -> str:
        """What is new in ``text``, whose blanks are ``___``."""
        committed, blank, _ = between_text(text, self._before, self._after).partition("___")
        words = committed.rstrip().split(" ")
        return self._new(" ".join(words[:-HELD])) if blank and len(words) > HELD else ""

    def rest(self, text: str) -> str:
        """What is left of the finished ``text``."""
        whole = between_text(text, self._before, self._after)
        return whole[len(self._said) :] if whole.startswith(self._said) else self._new(whole)

    def _new(self, text: str) -> str:
        if not text.startswith(self._said):
            return ""
        more, self._said = text[len(self._said) :], text
        return more


def commits(options: GenerateOptions) -> bool:
    """Whether a token that was drawn stays."""
    kind = options_of(options.sampler, {name: getattr(options, name) for name in SAID})[1]
    return isinstance(kind, AnyOrder | Parallel)
