"""Text quality and time: Liao et al.'s Table 4, and what few-step samplers cost in quality and save in time.

A *writer* is one model with one sampler at one number of steps. Every writer is timed on the same number of texts, and
its texts are measured and judged in the same way.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from anyorder.errors import AnyorderError, choose
from anyorder.metrics.schedules import SCHEDULES
from anyorder.metrics.text import adjacent_repeats, distinct_n, repetition_n, unigram_entropy
from anyorder.models.ordered import TRAINED
from anyorder.stats import Record
from anyorder.studies.causal import causal_sample, load_causal
from anyorder.tasks.generate import BATCH, generations, plan
from anyorder.tasks.options import LoadOptions
from anyorder.tasks.pieces import affixes
from anyorder.text.vocabulary import vocabulary
from anyorder.training.data import documents
from anyorder.training.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from anyorder.studies.judge import Judge
    from anyorder.tasks.lm import MaskedLM

SAMPLERS = ("parallel", "pairs", "refine", "gibbs")  # pairs: parallel with neighbours drawn from their joint


@dataclass(frozen=True)
class GenerationQuality(Record):
    """One row of the study; rates are shares, time is for one text."""

    model: str
    sampler: str
    steps: int  # model calls per batch of texts
    texts: int
    tokens: int  # of each text, special ones not counted
    seconds: float
    passes: float  # rows of the model
    perplexity: float | None  # generative, under the judge, with its 95 % interval; None without one
    low: float | None
    high: float | None
    entropy: float  # nats, of token frequencies within a text: dull text is probable text, so read it beside perplexity
    stutter: float  # adjacent repeats beyond those of the real texts, if there are any
    distinct_2: float
    repetition_3: float


class Written(NamedTuple):
    """What a writer wrote."""

    texts: list[str]
    rows: list[list[int]]  # the same as tokens
    passes: float  # rows of the model per text


@dataclass(frozen=True)
class Writer:
    """A model and one way to write with it."""

    model: str
    sampler: str
    steps: int
    write: Callable[[int], Written]  # how many texts -> the texts


def masked_writers(
    name: str,
    lm: MaskedLM,
    *,
    length: int,
    steps: Sequence[int],
    samplers: Sequence[str] = ("parallel", "refine", "gibbs"),
    schedules: Sequence[str | None] = (None,),
    order: str = "confidence",
    temperature: float = 1.0,
    seed: int = 0,
    batch: int = BATCH,
) -> Iterator[Writer]:
    """Any-order, one token per step, then every sampler at every number of steps.

    A model trained for it writes any-order twice, read in full and in order (``ordered``). ``parallel``, ``pairs`` and
    ``refine`` take the steps as they are. ``gibbs`` with K steps resamples blocks of ⌈2n/K⌉: half the steps draft the
    text, the other half go over it once more, so that all cost K passes per text (and ``pairs`` further rows).

    Args:
        name: Of the model, in the rows.
        lm: The model.
        length: Tokens of every text, special ones not counted.
        steps: The numbers of steps, each at most ``length``.
        samplers: Among parallel, pairs, refine and gibbs.
        schedules: Of parallel and pairs: a row for each; None is what ``generate`` takes by itself.
        order: Which blanks parallel and pairs commit first.
        temperature: Of every sampler.
        seed: Of every random choice.
        batch: Texts written together.
    """
    for sampler in samplers:
        choose(sampler, SAMPLERS, "sampler")
    for schedule in schedules:
        choose(schedule or "linear", SCHEDULES, "schedule")
    if samplers and (not steps or min(steps) < 2 or max(steps) > length):
        raise AnyorderError(f"steps must lie between 2 and the length, {length}")

    def writer(label: str, count: int, **options: Any) -> Writer:
        options |= {"length": length, "temperature": temperature, "seed": seed}
        plan(lm, **options)  # what cannot be written is refused before the first text is, not after hours

        def write(texts: int) -> Written:
            task = plan(lm, samples=texts, **options)
            made = list(generations(task, batch=batch))
            passes = sum(one.passes for one in made) / texts
            return Written([one.text for one in made], [list(one.tokens) for one in made], passes)

        return Writer(name, label, count, write)

    yield writer("any-order", length, sampler="any-order", reading="full")
    if getattr(lm.model.config, TRAINED, False):
        yield writer("ordered", length, sampler="any-order", reading="ordered")
    for sampler in samplers:
        scheduled = sampler in ("parallel", "pairs")
        for schedule, count in itertools.product(schedules if scheduled else (None,), steps):
            options: dict[str, Any] = {"sampler": sampler, "steps": count}
            if sampler == "gibbs":
                options["block"] = math.ceil(2 * length / count)
            elif scheduled:
                pairs = sampler == "pairs"
                options |= {"sampler": "parallel", "schedule": schedule, "order": order, "pairs": pairs}
            yield writer(f"{sampler} {schedule}" if schedule else sampler, count, **options)


def causal_writer(
    name: str, path: Path, options: LoadOptions = LoadOptions(), *, length: int, seed: int = 0, batch: int = BATCH
) -> Writer:
    """A causal model that writes left to right with its key-value cache; arguments as :func:`masked_writers`."""
    model, tokenizer = load_causal(path, options), load_tokenizer(path, options.trust_remote_code)
    before, _ = affixes(tokenizer)
    # The support of the masked writers: nothing that is never text.
    never = vocabulary(tokenizer, model.config.vocab_size).special.nonzero().squeeze(1).tolist()
    if len(before) != 1:
        raise AnyorderError(f"{path}: texts need one token, like [CLS], to begin with")

    def write(texts: int) -> Written:
        generator = torch.Generator().manual_seed(seed)
        rows: list[list[int]] = []
        while len(rows) < texts:
            start = torch.tensor(before).expand(min(batch, texts - len(rows)), 1)
            rows += causal_sample(model, start, length, generator, never)[:, 1:].tolist()
        return Written([str(tokenizer.decode(row)) for row in rows], rows, float(length))

    return Writer(name, "left-to-right, cached", length, write)


def real_texts(lm: MaskedLM, path: Path, length: int, count: int) -> Written:
    """The last ``count`` lines of a file that have ``length`` tokens, cut to them.

    The last ones, because training holds out the end of a file.
    """
    # Some lines are long in letters and short in tokens, so more are kept than needed.
    last: deque[str] = deque(maxlen=8 * count)
    for (line,) in documents(path, unit="line"):
        if len(line) >= 2 * length:
            last.append(line)
    rows: list[list[int]] = []
    for line in reversed(last):
        ids: list[int] = lm.tokenizer(line, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
        if len(ids) >= length:
            rows.append(ids[:length])
        if len(rows) == count:
            return Written([str(lm.tokenizer.decode(row)) for row in rows], rows, 0.0)
    raise AnyorderError(f"{path} has only {len(rows)} lines of {length} tokens near its end: ask for fewer texts")


def study(
    writers: Iterable[Writer],
    *,
    texts: int = 64,
    judge: Judge | None = None,
    real: Written | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> Iterator[GenerationQuality]:
    """Let every writer write and measure its texts; a row as soon as it is known.

    Args:
        writers: From :func:`masked_writers` and :func:`causal_writer`.
        texts: Texts per writer.
        judge: The causal language model behind the generative perplexity.
        real: Real texts, to compare with (the first row) and to take the rate of honest repeats from.
        progress: Called with what is done next.
    """
    corpus_rate = 0.0
    if real is not None:
        progress("real texts")
        corpus_rate = adjacent_repeats(real.rows)
        yield _measure("", "real text", 0, 0.0, real, judge, corpus_rate)
    for writer in writers:
        progress(f"{writer.model} {writer.sampler}, {writer.steps} steps")
        writer.write(1)  # the first call pays for allocations
        start = time.perf_counter()
        written = writer.write(texts)
        seconds = (time.perf_counter() - start) / texts
        yield _measure(writer.model, writer.sampler, writer.steps, seconds, written, judge, corpus_rate)


def _measure(
    model: str, sampler: str, steps: int, seconds: float, written: Written, judge: Judge | None, corpus_rate: float
) -> GenerationQuality:
    judged = judge.perplexity(written.texts) if judge is not None else None
    rows = written.rows
    return GenerationQuality(
        model=model,
        sampler=sampler,
        steps=steps,
        texts=len(rows),
        tokens=len(rows[0]),
        seconds=seconds,
        passes=written.passes,
        perplexity=None if judged is None else judged.perplexity,
        low=None if judged is None else judged.low,
        high=None if judged is None else judged.high,
        entropy=unigram_entropy(rows),
        stutter=adjacent_repeats(rows) - corpus_rate,
        distinct_2=distinct_n(rows, 2),
        repetition_3=repetition_n(rows, 3),
    )
