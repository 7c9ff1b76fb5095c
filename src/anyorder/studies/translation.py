"""Translation: BLEU, chrF, stutter and time against the number of steps, beside writing left to right.

A *way* is a sampler with its options; every way translates the same sources at every number of steps and of lengths.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from anyorder.errors import AnyorderError
from anyorder.files.columns import rows as table_rows
from anyorder.files.journal import Journal
from anyorder.metrics.bootstrap import middle
from anyorder.metrics.text import adjacent_repeats
from anyorder.metrics.translation import Scored, bootstrap, scored
from anyorder.stats import Interval, Record
from anyorder.studies.options.translation import WAYS, two_columns
from anyorder.tasks.options import TranslateOptions
from anyorder.tasks.translate import translate

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

_EVERY = 10**6  # more steps than any target has tokens: one per token
BASELINE = "left-to-right"  # one token per step in reading order, kept keys and values if the model was trained so


@dataclass(frozen=True)
class TranslationQuality(Record):
    """One row of the study; the time is for one sentence among all translated together."""

    way: str
    steps: int | None  # None: one per token
    lengths: int
    sentences: int
    bleu: Interval
    chrf: Interval
    ahead: Interval  # BLEU minus that of left to right with as many lengths, on the same resampled sentences
    stutter: float  # tokens equal to their left neighbour, as a share, beyond that of the references
    seconds: float
    passes: float  # rows of the model for one target


@dataclass(frozen=True)
class Pairs:
    """Sources and what they were translated to by people."""

    sources: tuple[str, ...]
    references: tuple[str, ...]


def read_pairs(path: str, columns: str, limit: int | None) -> Pairs:
    """Two columns of a table, such as ``"1,2"``; at most ``limit`` pairs, evenly spread."""
    found = [pair for pair in table_rows(path, two_columns(columns), "--columns") if all(part.strip() for part in pair)]
    if not found:
        raise AnyorderError(f"{path} holds no pairs: it needs two texts per line with a tab between them")
    if limit is not None and limit < len(found):
        found = [found[i * len(found) // limit] for i in range(limit)]
    sources, references = zip(*found, strict=True)
    return Pairs(sources, references)


@dataclass(frozen=True)
class System:
    """One way at one number of steps and of lengths."""

    way: str
    steps: int | None
    lengths: int
    options: TranslateOptions

    @property
    def name(self) -> str:
        """In journals and progress."""
        return f"{self.way}, {self.steps or 'as many'} steps, {self.lengths} lengths"


@dataclass(frozen=True)
class Written:
    """What a system wrote for the sources, and what that took per sentence."""

    texts: list[str]
    tokens: list[list[int]]
    seconds: float
    passes: float


def systems(ways: Sequence[str], steps: Sequence[int], lengths: Sequence[int], seed: int) -> list[System]:
    """Left to right first, for every number of lengths, then every way at every number of steps."""
    found = []
    for beam in lengths:
        options = TranslateOptions(sampler="any-order", order="left-to-right", lengths=beam, seed=seed)
        found.append(System(BASELINE, None, beam, options))
    for way, count, beam in itertools.product(ways, (*steps, None), lengths):
        if count is None and way != "parallel":
            continue  # one per token is parallel decoding at its end; the others have no such end
        options = TranslateOptions(**WAYS[way], steps=count or _EVERY, lengths=beam, seed=seed)
        found.append(System(way, count, beam, options))
    return found


def study(
    lm: MaskedLM,
    pairs: Pairs,
    several: Sequence[System],
    *,
    resamples: int = 1000,
    seed: int = 0,
    baseline: MaskedLM | None = None,
    journal: Journal | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> Iterator[tuple[TranslationQuality, Written]]:
    """Translate with every system and measure; a row as soon as it is known.

    Args:
        lm: A model trained on pairs.
        pairs: What is translated, and what it is compared with.
        several: From :func:`systems`: left to right before the ways that are compared with it.
        resamples: Of the paired bootstrap; 0 for no intervals.
        seed: Of the bootstrap.
        baseline: The model that writes left to right; the same one if None.
        journal: Keeps what each system wrote; the systems that it holds already do not write again.
        progress: Called with what is done next.
    """
    natural = {id(one): _natural(one, pairs) for one in (lm, baseline) if one is not None}
    baselines: dict[int, Scored] = {}
    known = {} if journal is None else _known(journal)
    for system in several:
        progress(system.name)
        writer = baseline if baseline is not None and system.way == BASELINE else lm
        written = known.get(system.name)
        if written is None:
            written = _write(writer, pairs, system)
            if journal is not None:
                journal.add({"system": system.name, "written": asdict(written)})
        bleu, chrf = (scored(name, written.texts, [pairs.references]) for name in ("BLEU", "chrF"))
        if system.way == BASELINE:
            baselines[system.lengths] = bleu
        mine, others, letters = bootstrap([bleu, baselines[system.lengths], chrf], resamples, seed)
        row = TranslationQuality(
            way=system.way,
            steps=system.steps,
            lengths=system.lengths,
            sentences=len(written.texts),
            bleu=middle(bleu.of(), mine),
            chrf=middle(chrf.of(), letters),
            ahead=middle(bleu.of() - baselines[system.lengths].of(), mine - others),
            stutter=adjacent_repeats(written.tokens) - natural[id(writer)],
            seconds=written.seconds,
            passes=written.passes,
        )
        yield row, written


def _write(writer: MaskedLM, pairs: Pairs, system: System) -> Written:
    """Translate all sources, timed."""
    translate(writer, [pairs.sources[0]], system.options)  # the first call pays for allocations
    start = time.perf_counter()
    found = translate(writer, list(pairs.sources), system.options)
    return Written(
        texts=[one.text for one in found],
        tokens=[list(one.tokens) for one in found],
        seconds=(time.perf_counter() - start) / len(found),
        passes=sum(one.passes for one in found) / len(found),
    )


def _known(journal: Journal) -> dict[str, Written]:
    """What the systems of an earlier run wrote."""
    try:
        return {record["system"]: Written(**record["written"]) for record in journal.records}
    except (KeyError, TypeError) as error:
        raise AnyorderError(f"{journal.path} is not a journal of translations: choose another --out") from error


def _natural(lm: MaskedLM, pairs: Pairs) -> float:
    """How often a token of the references equals its left neighbour, in the tokens of the model that is measured."""
    ids = lm.tokenizer(list(pairs.references), add_special_tokens=False, verbose=False)["input_ids"]
    return adjacent_repeats(ids)


def signatures() -> dict[str, str]:
    """What exactly sacrebleu counted."""
    return {name: scored(name, ["a"], [["a"]]).signature for name in ("BLEU", "chrF")}
