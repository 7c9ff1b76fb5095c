"""The laboratory's questions put to a real model: what depends on what, what mixes, what stutters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from anyorder.conditionals.restricted import text_only
from anyorder.errors import AnyorderError
from anyorder.metrics.text import adjacent_repeats
from anyorder.stats import Estimate, mean_estimate, ratio_estimate, to_json
from anyorder.studies.dependence import Dependence, safe_block, text_pairs
from anyorder.studies.options.generation import DiagnoseOptions
from anyorder.studies.text_chains import ChainReport, text_chain
from anyorder.tasks.pieces import affixes

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

MIN_TOKENS = 4
_CORPUS_TEXTS = 1000  # of the data, whose own repeats are counted


@dataclass(frozen=True)
class StutterRate:
    """Adjacent repeats of one way of generating."""

    sampler: str
    temperature: float
    rate: float
    standard_error: float  # over texts; NaN of one


@dataclass
class Diagnosis:
    """Everything found so far; each part is filled in when it is done."""

    model: str
    settings: DiagnoseOptions
    texts: list[str] = field(default_factory=list)
    skipped: int = 0
    pairs: list[Dependence] = field(default_factory=list)
    safe_blocks: list[int] = field(default_factory=list)  # by text, random positions
    safe_spaced: list[int] = field(default_factory=list)  # by text, positions no two of which are neighbours
    chains: list[ChainReport] = field(default_factory=list)
    corpus_stutter: float = 0.0
    stutter: list[StutterRate] = field(default_factory=list)

    def information(self, neighbours: bool) -> Estimate:
        """Mean nats lost by drawing two positions in parallel, random ones or neighbours."""
        texts: dict[int, list[float]] = {}
        for pair in self.pairs:
            if pair.neighbours == neighbours:
                texts.setdefault(pair.text, []).append(pair.information)
        if not texts:
            return Estimate(math.nan, math.nan, 0)
        if len(texts) == 1:  # then it is about this text, and its pairs are the sample
            return mean_estimate(*texts.values())
        return ratio_estimate([sum(values) for values in texts.values()], [len(values) for values in texts.values()])

    @property
    def attention_correlation(self) -> float | None:
        """Spearman's rank correlation of attention with influence over all pairs: can attention stand in for it?"""
        known = [(p.attention, p.influence) for p in self.pairs if p.attention is not None]
        if len(known) < 3:
            return None
        value = float(stats.spearmanr(*zip(*known, strict=True)).statistic)
        return value if math.isfinite(value) else None

    @property
    def advice(self) -> list[str]:
        """The findings as sentences."""
        lines = []
        if self.pairs:
            far, near = self.information(False), self.information(True)
            block = int(np.median(self.safe_blocks))
            lines.append(
                f"Drawing two random tokens of a text in parallel loses {_nats(far)}, two neighbours {_nats(near)}."
            )
            many = f"up to {block} random positions" if block > 1 else "one random position"
            lines.append(
                f"To lose at most {self.settings.budget:g} nats per step, resample {many} at a time, or "
                f"{int(np.median(self.safe_spaced))} of which no two are neighbours (median text)."
            )
        for chain in self.chains:
            escape = (
                f"half forgets its start in {chain.escape} sweep{'s' * (chain.escape != 1)}"
                if chain.escape is not None
                else "keeps its start"
            )
            lines.append(
                f"Text {chain.text + 1}, block {chain.block}: Gibbs {escape}; {chain.verdict}"
                + ("" if math.isnan(chain.effective) else f", {chain.effective:.0f} effective of {chain.draws} sweeps")
                + "."
            )
        if self.stutter:
            worst = max(self.stutter, key=lambda s: s.rate)
            lines.append(
                f"Most stutter: {worst.sampler} at temperature {worst.temperature:g}, {worst.rate:.1%} of neighbours "
                f"equal (real text: {self.corpus_stutter:.1%})."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        estimates = {name: self.information(flag) for name, flag in (("random", False), ("neighbours", True))}
        found = {
            "model": self.model,
            "advice": self.advice,
            "information": {k: e.to_dict() for k, e in estimates.items() if e.samples > 1},
            "attention_correlation": self.attention_correlation,
            **asdict(self),
            "chains": [{**asdict(c), "escape": c.escape} for c in self.chains],
        }
        return dict(to_json(found))


def _nats(found: Estimate) -> str:
    error = " (one pair: no error)" if math.isnan(found.standard_error) else f" ± {found.standard_error:.3f}"
    return f"{found.value:.3f}{error} nats" if found.samples else "unknown (no such pair)"


def diagnose(lm: MaskedLM, texts: Sequence[str], settings: DiagnoseOptions) -> Iterator[tuple[str, float, Diagnosis]]:
    """Yield (what is done, share of all work, the diagnosis so far) as the work goes on; the same object each time."""
    found = Diagnosis(lm.name, settings)
    rows = _rows(lm, texts, settings, found)
    conditionals = text_only(lm.conditionals, lm.tokenizer)
    some = list(texts[:_CORPUS_TEXTS])
    found.corpus_stutter = adjacent_repeats(lm.tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"])
    plans = _stutter_plans(settings)
    chain_rows = rows[: settings.chain_texts]
    total = len(rows) + 2 * len(chain_rows) * settings.sweeps / 4 + len(plans)
    done = 0.0
    for number, (tokens, free) in enumerate(rows):
        pairs = text_pairs(lm, conditionals, number, tokens, free, settings.pairs, settings.seed + number)
        found.pairs += pairs
        drawn = [p for p in pairs if not p.neighbours]
        apart = [p.information for p in drawn if p.j - p.i > 1]
        n = int(free.sum())
        found.safe_blocks.append(safe_block(float(np.mean([p.information for p in drawn])), n, settings.budget))
        found.safe_spaced.append(safe_block(float(np.mean(apart)), -(-n // 2), settings.budget) if apart else 1)
        done += 1
        yield f"dependence, text {number + 1}", done / total, found
    for number, (tokens, free) in enumerate(chain_rows):
        for block in sorted({1, max(2, min(found.safe_blocks[number], int(free.sum()) // 2))}):
            options = {"chains": settings.chains, "sweeps": settings.sweeps, "seed": settings.seed + number}
            for report in text_chain(conditionals, number, tokens, free, block=block, **options):
                if report is not None:
                    found.chains.append(report)
                else:
                    done += 0.25
                yield f"Gibbs on text {number + 1}, block {block}", done / total, found
    for name, options, temperature in plans:
        found.stutter.append(_stutter(lm, name, options, temperature, settings))
        done += 1
        yield f"stutter, {name} at {temperature:g}", done / total, found


def _rows(
    lm: MaskedLM, texts: Sequence[str], settings: DiagnoseOptions, found: Diagnosis
) -> list[tuple[Tensor, Tensor]]:
    """(tokens [N], free [N]) of a seeded choice of texts; those too short to have pairs are skipped and counted."""
    before, after = affixes(lm.tokenizer)
    room = min(settings.length, lm.max_length - len(before) - len(after))
    rows = []
    for index in torch.randperm(len(texts), generator=torch.Generator().manual_seed(settings.seed)).tolist():
        ids = lm.tokenizer(texts[index], add_special_tokens=False, verbose=False)["input_ids"][:room]
        ids = [i for i in ids if i != lm.tokenizer.mask_token_id]
        if len(ids) < MIN_TOKENS:
            found.skipped += 1
            continue
        tokens = torch.tensor([*before, *ids, *after])
        free = torch.zeros(len(tokens), dtype=torch.bool)
        free[len(before) : len(before) + len(ids)] = True
        rows.append((tokens, free))
        found.texts.append(str(lm.tokenizer.decode(ids)))
        if len(rows) == settings.texts:
            break
    if not rows:
        raise AnyorderError(f"no text of at least {MIN_TOKENS} tokens in the data: give longer lines")
    return rows


def _stutter_plans(settings: DiagnoseOptions) -> list[tuple[str, dict[str, Any], float]]:
    """(name, options of ``lm.generate``, temperature)."""
    few, some = max(1, settings.length // 8), max(2, settings.length // 2)
    ways: dict[str, dict[str, Any]] = {
        "any-order": {"sampler": "any-order", "reading": "full"},  # as the others read it: only samplers differ
        f"parallel, {few} step{'s' * (few > 1)}": {"sampler": "parallel", "steps": few, "order": "random"},
        f"parallel, {some} steps": {"sampler": "parallel", "steps": some, "order": "random"},
        "gibbs": {"sampler": "gibbs"},
        "adaptive": {"sampler": "adaptive"},
        "refine": {"sampler": "refine"},
    }
    return [(name, options, t) for name, options in ways.items() for t in settings.temperatures]


def _stutter(
    lm: MaskedLM, name: str, options: dict[str, Any], temperature: float, settings: DiagnoseOptions
) -> StutterRate:
    made = lm.generate(
        length=settings.length, samples=settings.samples, temperature=temperature, seed=settings.seed, **options
    )
    neighbours = [len(one.tokens) - 1 for one in made]
    # A text that stutters does so again and again: the texts are the sample.
    equal = [adjacent_repeats([one.tokens]) * n for one, n in zip(made, neighbours, strict=True)]
    found = ratio_estimate(equal, neighbours)
    return StutterRate(name, temperature, found.value, found.standard_error)
