"""Translate, or write any text given another: the logic behind ``lm.translate`` and ``anyorder translate``.

A translation is a text with blanks, ``[CLS] source [SEP] ___ … ___ [SEP]``. The likeliest lengths of the target are
tried, each filled by any sampler, and the filling of the highest mean log-probability is the translation.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from anyorder.conditionals.restricted import Restricted, RestrictedOrdered
from anyorder.errors import AnyorderError
from anyorder.models.attention import attention_influence
from anyorder.models.pairs import PAIRS
from anyorder.options import whole_numbers
from anyorder.samplers.draw import place
from anyorder.samplers.repair import repair
from anyorder.samplers.run import stream
from anyorder.samplers.seeds import Seeds
from anyorder.samplers.warpers import warper as make_warper
from anyorder.stats import Record
from anyorder.tasks.constraints import constraints, rules
from anyorder.tasks.constraints import place as place_constraints
from anyorder.tasks.given import blank_row, length_laws, openings
from anyorder.tasks.options import TranslateOptions
from anyorder.tasks.reading import reader
from anyorder.tasks.rows import batches, padded
from anyorder.tasks.samplers import Adaptive, Gibbs, Parallel, Refine, SamplerOptions, Task
from anyorder.text.template import Layout
from anyorder.text.vocabulary import Vocabulary, vocabulary
from anyorder.types import Ordered

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

_ROWS = 128  # rows filled together
_PLACES = 3  # places tried for the words that must appear, for each length


@dataclass(frozen=True)
class Translation(Record):
    """A source and what was written for it.

    Attributes:
        source: The text that was given.
        text: The best target; empty for an empty source among several.
        tokens: Its token ids, without special ones.
        log_prob: Σ log q of every token when it was last drawn, words that must appear included. For any-order this is
            the exact log-probability along the order taken, given the length; for samplers that draw side by side or
            several times over, an indication.
        length_log_prob: log p(length | source).
        passes: Rows sent through the model for this target, on average over those filled with it, rounded up.
        states: With ``trace``: the target before the first step and after each.
        others: The targets of other lengths, best first.
    """

    source: str
    text: str
    tokens: tuple[int, ...]
    log_prob: float
    length_log_prob: float
    passes: int
    states: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """What targets of different lengths are ranked by: the mean log-probability of a token."""
        return self.log_prob / max(1, len(self.tokens))

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, log_prob={self.log_prob:.4f}, passes={self.passes})"

    def cells(self) -> dict[str, str]:
        """A row of a table."""
        return {"score": f"{self.score:.3f}", "source": self.source, "text": self.text}

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        found = super().to_dict() | {"score": self.score}
        if not self.states:
            del found["states"]
        return found


class Drawn(NamedTuple):
    """What a batch of rows was filled with."""

    tokens: Tensor  # [B, N]
    log_prob: Tensor  # [B, N] float64, log q of each token when it was last drawn, 0 where none was
    rows: int  # rows sent through the model
    states: list[list[str]]  # with ``trace``: what each row looked like at every step


@dataclass(frozen=True, eq=False)
class _Row:
    """One target to fill."""

    text: int  # the number of its source
    where: Layout  # its row; words that must appear stand in it already
    start: int  # where the target begins
    length: int
    length_log_prob: float
    log_prob: float = 0.0  # of the words that stand in it
    allowed: Tensor | None = None  # [N, V] what may stand where; None: any text
    alike: Hashable = ()  # rows filled together share it


def translate(lm: MaskedLM, texts: str | Sequence[str], options: TranslateOptions, first: int = 1) -> list[Translation]:
    """The best target of each source; ``first`` is the number of the first of several, for messages.

    An empty source among several has an empty target. What is drawn for a source comes from the seed and the source
    itself, so that its place in a list or a file does not matter and equal sources have equal targets.
    """
    if getattr(lm.model.config, PAIRS, None) is None:
        raise AnyorderError(
            f"{lm.name} was not trained on pairs: train a model with recipes/translate.yaml (data.columns), or write "
            "after a given text with anyorder generate --given"
        )
    if options.steps is not None and len(whole_numbers(options.steps, "steps")) > 1:
        raise AnyorderError(f"one target has one number of steps, not {options.steps}: translate once for each")
    alone = isinstance(texts, str)
    sources = [texts] if isinstance(texts, str) else list(texts)
    some = [number for number, source in enumerate(sources) if alone or source.strip()]
    found = [Translation(source, "", (), 0.0, 0.0, 0) for source in sources]
    if some:
        given = [sources[number] for number in some]
        rows = _rows(lm, given, options, None if alone else first)
        for number, best in zip(some, _best(lm, given, rows, options), strict=True):
            found[number] = best
    return found


def _rows(lm: MaskedLM, sources: Sequence[str], options: TranslateOptions, first: int | None) -> list[_Row]:
    """The targets to fill: the likeliest lengths of each source, with the words that must appear in their places."""
    wanted = constraints(lm, options.must)
    starts = openings(lm, sources, first)
    laws = length_laws(lm, starts, options.length_law)
    if wanted:  # a target has room for the words it must hold
        laws = laws.masked_fill(torch.arange(laws.shape[1]) < sum(map(len, wanted)), -torch.inf)
    if not bool(torch.isfinite(laws).any(1).all()):
        raise AnyorderError("the words that must appear do not fit the model beside the source: name fewer with --must")
    words = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    found = []
    for number, (opening, law) in enumerate(zip(starts, laws, strict=True)):
        best = law.topk(min(options.lengths, int(torch.isfinite(law).sum())))
        for value, length in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            row = _Row(number, blank_row(lm, opening, length), len(opening), length, value, alike=length)
            found += [row] if not wanted else _constrained(lm, row, wanted, words, options)
        if not found or found[-1].text != number:
            raise AnyorderError("there is no place for all words that must appear: name fewer, or raise --lengths")
    return found


def _constrained(
    lm: MaskedLM, row: _Row, wanted: Sequence[Sequence[int]], words: Vocabulary, options: TranslateOptions
) -> list[_Row]:
    """``row`` with the words that must appear in each of their likeliest places."""
    found = []
    for placed in place_constraints(lm.conditionals, row.where.tokens, row.where.free, wanted, _PLACES):
        taken = {position for first, count in placed.places for position in range(first, first + count)}
        slots = tuple(position for position in row.where.slots[0] if position not in taken)
        where = Layout(placed.tokens, (slots,), ("", ""))
        allowed = rules(words, len(placed.tokens), placed, wanted, options.must_repeat)
        alike = (row.length, len(placed.tokens), placed.places)
        found.append(replace(row, where=where, log_prob=placed.log_prob, allowed=allowed, alike=alike))
    return found


def _best(lm: MaskedLM, sources: Sequence[str], rows: Sequence[_Row], options: TranslateOptions) -> list[Translation]:
    """Fill all rows, those of one length together, and choose for each source."""
    words = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    lengths, alike = [len(row.where.tokens) for row in rows], [row.alike for row in rows]
    filled: list[list[Translation]] = [[] for _ in sources]
    for batch in batches(lengths, lm.conditionals.pad_id, alike=alike, size=_ROWS):
        mine = [rows[i] for i in batch]
        # The name of a row is what it is, not where it stands: its draws depend neither on the batch nor on the file.
        names = [(sources[row.text], row.length, row.alike) for row in mine]
        done = _fill(lm, mine, Seeds(options.seed, names), words, options)
        passes = math.ceil(done.rows / len(mine))
        for i, row in enumerate(mine):
            target = done.tokens[i, row.start : row.start + row.length]
            one = Translation(
                source=sources[row.text],
                text=words.decode(target.tolist()),
                tokens=tuple(target.tolist()),
                log_prob=float(done.log_prob[i].sum()) + row.log_prob,
                length_log_prob=row.length_log_prob,
                passes=passes,
                states=tuple(state[i] for state in done.states),
            )
            filled[row.text].append(one)
    chosen = []
    for several in filled:
        best, *others = sorted(several, key=lambda one: -one.score)
        chosen.append(replace(best, others=tuple(one.text for one in others)))
    return chosen


def _fill(lm: MaskedLM, rows: Sequence[_Row], seeds: Seeds, words: Vocabulary, options: TranslateOptions) -> Drawn:
    """Fill rows that share one length and one set of rules."""
    name, chosen = options.chosen
    pad = lm.conditionals.pad_id
    tokens = padded([row.where.tokens for row in rows], pad)
    free = padded([row.where.free for row in rows], None)
    allowed = ~words.special if rows[0].allowed is None else rows[0].allowed
    asked, _ = reader(lm, options.reading, f"the sampler {name!r}", chosen.in_order)
    warper = make_warper(temperature=options.temperature, top_k=None if options.draw else 1)
    inside = Restricted(lm.conditionals, allowed)
    task = Task(
        conditionals=inside,
        ordered=RestrictedOrdered(asked, allowed) if isinstance(asked, Ordered) else None,
        layout=rows[0].where,
        warper=None if options.pairs else warper,
        greedy=not options.draw,
        attention=lambda: attention_influence(lm.model, lm.conditionals.mask_id, pad, options.source_attention),
    )
    log_prob, sent = torch.zeros(tokens.shape, dtype=torch.float64), 0
    states: list[list[str]] = []

    def show(now: Tensor) -> None:
        if options.trace:
            states.append([_shown(words, now[i, row.start : row.start + row.length]) for i, row in enumerate(rows)])

    if not bool(free.any()):  # every token of the target is one that must appear
        return Drawn(tokens, log_prob, sent, states)
    made = _fitted(chosen, task.blanks).make(task)
    steps = stream(made.sampler, tokens, free, generator=seeds, steps=None if made.sampler.ends else made.steps)
    show(tokens)
    for state, info in steps:
        taken = info.positions if info.accepted is None else torch.where(info.accepted[:, None], info.positions, -1)
        log_prob, tokens, sent = place(log_prob, taken, info.log_prob), state.tokens, sent + info.rows
        show(tokens)
    if options.repair:
        again = repair(inside, tokens, free, generator=seeds, rounds=options.repair, warper=task.warper)
        log_prob = torch.where(again.log_prob.isnan(), log_prob, again.log_prob)
        tokens, sent = again.tokens, sent + again.rows
        show(tokens)
    return Drawn(tokens, log_prob, sent, states)


def _fitted(chosen: SamplerOptions, blanks: int) -> SamplerOptions:
    """As many steps for targets of all lengths: at most one per token, or blocks large enough for two rounds."""
    steps = getattr(chosen, "steps", None)
    if steps is None:
        return chosen
    if isinstance(chosen, Refine | Parallel):
        return replace(chosen, steps=min(steps, blanks))
    if isinstance(chosen, Gibbs | Adaptive) and chosen.block is None:
        return replace(chosen, block=math.ceil(2 * blanks / steps))
    return chosen


def _shown(words: Vocabulary, target: Tensor) -> str:
    """A target in the making, ``_`` for what is not decided."""
    mask = str(words.tokenizer.mask_token)
    return words.decode(target.tolist()).replace(mask, "_")
