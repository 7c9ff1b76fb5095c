"""Certificates: each sampler's total variation to an exact joint, beside the floor of as many exact draws.

Chains all start from one and the same state, away from the truth, so that sitting on the floor means that the chain
got there by itself.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from anyorder.conditionals.reread import Reread
from anyorder.conditionals.table import Table
from anyorder.samplers import adaptive, any_order, gibbs, metropolis, parallel, refine, speculative, stream
from anyorder.stats import Estimate, Record
from anyorder.studies.exact import CertifiedWorld, Lookup, empirical_tv, floor, mrf_joint, total_variation, worlds
from anyorder.studies.options.exact import SAMPLERS
from anyorder.types import Sampler

WORLDS = 5
FLOOR = "on the floor"
BIAS = "biased, no worse than one step"
NONE = "shown only"
TOLERANCE = 3.0  # standard errors


@dataclass(frozen=True)
class Verdict(Record):
    """One sampler in one world. ``ok`` says whether the claim holds."""

    sampler: str
    world: str
    tv: float  # mean total variation to the target over the repeats
    tv_error: float  # its standard error
    floor: float  # the same for exact independent draws
    floor_error: float
    excess: float  # (tv - floor) in standard errors
    claim: str
    ok: bool
    target: str = "truth"  # or "MRF joint", for Metropolis
    target_tv: float = 0.0  # exact total variation between the target and the truth
    passes: float = 0.0  # rows of the model per text
    against: dict[str, float] | None = None  # total variation of rivals at the same cost


class Bench:
    """One world, ready to run samplers in: ``repeats`` times ``draws`` rows, one table of floors."""

    def __init__(self, world: CertifiedWorld, draws: int, repeats: int, generator: torch.Generator) -> None:
        self.world, self.draws, self.repeats, self.generator = world, draws, repeats, generator
        self.model = Lookup(world.table)
        self.floor = floor(world.table, draws, generator)
        length = world.table.length
        self.start = torch.zeros((draws * repeats, length), dtype=torch.long)
        self.free = torch.ones_like(self.start, dtype=torch.bool)

    def texts(self, sampler: Sampler, steps: int | None = None) -> tuple[Tensor, float]:
        """The final texts of a run, and its rows of the model per text."""
        tokens, passes = self.start, 0
        for state, info in stream(sampler, self.start, self.free, generator=self.generator, steps=steps):
            tokens, passes = state.tokens, passes + info.rows
        return tokens, passes / len(self.start)

    def tv(self, sampler: Sampler, steps: int | None = None) -> Estimate:
        """Total variation to the truth after ``steps``."""
        return empirical_tv(self.world.table, self.texts(sampler, steps)[0], self.repeats)

    def verdict(
        self, name: str, sampler: Sampler, steps: int | None = None, claim: str = FLOOR, target: Table | None = None
    ) -> Verdict:
        """Run ``sampler`` and hold it against the truth, or against ``target``."""
        texts, passes = self.texts(sampler, steps)
        table = self.world.table if target is None else target
        base = self.floor if target is None else floor(target, self.draws, self.generator)
        tv = empirical_tv(table, texts, self.repeats)
        excess = _excess(tv, base)
        return Verdict(
            sampler=name,
            world=self.world.name,
            tv=tv.value,
            tv_error=tv.standard_error,
            floor=base.value,
            floor_error=base.standard_error,
            excess=excess,
            claim=claim,
            ok=claim != FLOOR or excess <= TOLERANCE,
            target="truth" if target is None else "MRF joint",
            target_tv=0.0 if target is None else total_variation(target, self.world.table),
            passes=passes,
        )


def _excess(tv: Estimate, base: Estimate) -> float:
    """(tv - floor) in standard errors of the difference.

    The spread of one repeat is the same for both if the sampler is exact; the floor has many more repeats, so its
    estimate of that spread is the one to trust.
    """
    spread = base.standard_error * math.sqrt(base.samples)
    return (tv.value - base.value) / (spread * math.sqrt(1 / tv.samples + 1 / base.samples))


def _any_order(bench: Bench) -> Iterator[Verdict]:
    for order in ("left-to-right", "random", "confidence", "entropy"):
        yield bench.verdict(f"any-order, {order}", any_order(bench.model, order=order))
    apart = copy.copy(bench)  # with draws of its own, so that those of the others stay what they were
    apart.generator = torch.Generator().manual_seed(bench.generator.initial_seed())
    yield apart.verdict("any-order, read in order", any_order(Reread(bench.model)))
    yield apart.verdict("any-order, 2 guessed ahead", speculative(Reread(bench.model), guesses=2))


def _gibbs(bench: Bench) -> Iterator[Verdict]:
    steps = bench.world.gibbs_steps
    yield bench.verdict("gibbs, single site", gibbs(bench.model), steps)
    yield bench.verdict("gibbs, blocks of 2 in sequence", gibbs(bench.model, block=2, mode="sequential"), steps)
    yield bench.verdict("gibbs, blocks of 2 in parallel", gibbs(bench.model, block=2), steps, NONE)


def _metropolis(bench: Bench) -> Iterator[Verdict]:
    target = mrf_joint(bench.world.table)
    yield bench.verdict("metropolis", metropolis(bench.model), bench.world.metropolis_steps, target=target)


def _parallel(bench: Bench) -> Iterator[Verdict]:
    length = bench.world.table.length
    for commit in ("random", "confidence"):
        rows: list[Verdict] = []
        for steps in range(1, length + 1):
            name = f"parallel, {commit}, {steps} step{'s' * (steps > 1)}"
            rows.append(bench.verdict(name, parallel(bench.model, steps=steps, commit=commit)))
            row, one_step = rows[-1], rows[0]
            if steps < length:
                slack = TOLERANCE * math.hypot(row.tv_error, one_step.tv_error)
                row = replace(row, claim=BIAS, ok=row.tv <= one_step.tv + slack)
            yield row


def _adaptive(bench: Bench) -> Iterator[Verdict]:
    """After a budget that leaves uniform blocks short of the truth: too few steps, or biased ones.

    On a clique all pairs depend alike and uniform blocks in sequence are the best there is: there the claim is to
    match those and to beat the ones in parallel. On weakly coupled tables there is nothing to win.
    """
    if bench.world.strong and bench.draws * bench.repeats < 10_000:
        # A lead can only be told apart from luck with enough texts, however few the user asked for.
        bench = Bench(bench.world, 1000, 10, bench.generator)
    block = 3
    row = bench.verdict("adaptive", adaptive(bench.model, block=block), 32, NONE)
    rivals = {
        "uniform blocks in parallel": bench.tv(gibbs(bench.model, block=block), math.ceil(row.passes)),
        "uniform blocks in sequence": bench.tv(
            gibbs(bench.model, block=block, mode="sequential"), math.ceil(row.passes / block)
        ),
    }
    row = replace(row, against={name: tv.value for name, tv in rivals.items()})
    if bench.world.strong:
        # The lead over each rival, in standard errors of the difference.
        leads = [(tv.value - row.tv) / math.hypot(tv.standard_error, row.tv_error) for tv in rivals.values()]
        ok = max(leads) > TOLERANCE and min(leads) > -TOLERANCE
        row = replace(row, claim="beats uniform blocks of equal cost", ok=ok)
    yield row


def _refine(bench: Bench) -> Iterator[Verdict]:
    yield bench.verdict("refine, drawing, 10 steps", refine(bench.model, greedy=False), claim=NONE)


_STUDIES: dict[str, Callable[[Bench], Iterator[Verdict]]] = {
    "any-order": _any_order,
    "gibbs": _gibbs,
    "metropolis": _metropolis,
    "parallel": _parallel,
    "adaptive": _adaptive,
    "refine": _refine,
}


def certify(
    samplers: tuple[str, ...] = SAMPLERS, *, draws: int = 1000, repeats: int = 10, seed: int = 0
) -> Iterator[Verdict]:
    """Yield verdicts, world by world.

    Args:
        samplers: Which of ``SAMPLERS``.
        draws: Texts in one histogram; more lower the floor and show smaller errors.
        repeats: Histograms a sampler is judged by.
        seed: Of all draws; the worlds are fixed.
    """
    for world in worlds():
        bench = Bench(world, draws, repeats, torch.Generator().manual_seed(seed))
        for name in samplers:
            yield from _STUDIES[name](bench)
