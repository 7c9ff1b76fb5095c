"""Text quality and time against the number of steps: what few-step samplers cost in quality, and save in time."""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError
from anyorder.metrics.text import adjacent_repeats, distinct_n, repetition_n, unigram_entropy
from anyorder.studies.judge import Judge

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

SAMPLERS = ("parallel", "refine", "gibbs")


@dataclass(frozen=True)
class Quality:
    """One sampler at one number of steps; rates are shares, entropy is in nats, time is for one text."""

    sampler: str
    steps: int
    seconds: float
    passes: float  # rows of the model
    perplexity: float | None  # generative, under the judge; None without one
    entropy: float  # of token frequencies within a text: read it beside the perplexity
    stutter: float  # adjacent repeats beyond those of the real texts, if there are any
    distinct_2: float
    repetition_3: float
    texts: int

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return asdict(self)


def real_texts(lm: MaskedLM, path: Path, length: int, count: int) -> list[list[int]]:
    """The last ``count`` lines of a file that have ``length`` tokens, cut to them.

    The last ones, because training holds out the end of a file.
    """
    from anyorder.training.data import documents

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
            return rows
    raise AnyorderError(f"{path} has only {len(rows)} lines of {length} tokens near its end: ask for fewer texts")


def study(
    lm: MaskedLM,
    *,
    steps: Sequence[int],
    length: int = 128,
    texts: int = 64,
    samplers: Sequence[str] = SAMPLERS,
    judge: Judge | None = None,
    corpus: Path | None = None,
    temperature: float = 1.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda what: None,
) -> Iterator[Quality]:
    """Generate with every sampler at every number of steps and measure; a row as soon as it is known.

    ``parallel`` and ``refine`` take the steps as they are. ``gibbs`` with K steps resamples blocks of ⌈2n/K⌉: half the
    steps draft the text, the other half go over it once more, so that all three cost K passes a text. The first rows
    are the real texts (if a corpus is given) and any-order, one token a step.

    Args:
        lm: The model.
        steps: The numbers of steps, each at most ``length``.
        length: Tokens of every text.
        texts: Texts for every row.
        samplers: Among parallel, refine and gibbs.
        judge: The causal language model behind the generative perplexity.
        corpus: Real texts, one a line, to compare with and to take the rate of honest repeats from.
        temperature: Of every sampler.
        seed: Of every random choice.
        progress: Called with what is done next.
    """
    for name in samplers:
        if name not in SAMPLERS:
            raise AnyorderError(f"the study knows {', '.join(SAMPLERS)}, not {name!r}")
    if not steps or min(steps) < 2 or max(steps) > length:
        raise AnyorderError(f"steps must lie between 2 and the length, {length}")
    corpus_rate = 0.0
    if corpus is not None:
        progress("real texts")
        rows = real_texts(lm, corpus, length, texts)
        corpus_rate = adjacent_repeats(rows)
        spelt = [str(lm.tokenizer.decode(row)) for row in rows]
        yield _measure("real text", 0, 0.0, 0.0, spelt, rows, judge, corpus_rate)

    def run(name: str, count: int, **options: Any) -> Quality:
        progress(f"{name}, {count} steps")
        start = time.perf_counter()
        made = lm.generate(length=length, samples=texts, temperature=temperature, seed=seed, sampler=name, **options)
        seconds = (time.perf_counter() - start) / texts
        passes = sum(one.passes for one in made) / texts
        return _measure(
            name, count, seconds, passes, [g.text for g in made], [list(g.tokens) for g in made], judge, corpus_rate
        )

    yield run("any-order", length)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a clamped number of steps would be a wrong row
        for name in samplers:
            for count in steps:
                extra = {"block": math.ceil(2 * length / count)} if name == "gibbs" else {}
                yield run(name, count, steps=count, **extra)


def _measure(
    name: str,
    steps: int,
    seconds: float,
    passes: float,
    texts: list[str],
    rows: list[list[int]],
    judge: Judge | None,
    corpus_rate: float,
) -> Quality:
    judged = judge.perplexity(texts) if judge is not None else None
    return Quality(
        sampler=name,
        steps=steps,
        seconds=seconds,
        passes=passes,
        perplexity=None if judged is None else judged.perplexity,
        entropy=unigram_entropy(rows),
        stutter=adjacent_repeats(rows) - corpus_rate,
        distinct_2=distinct_n(rows, 2),
        repetition_3=repetition_n(rows, 3),
        texts=len(rows),
    )
