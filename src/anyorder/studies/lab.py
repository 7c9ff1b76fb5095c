"""The laboratory's three studies, row by row: mixing, efficiency, and what a parallel step loses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anyorder.chains.efficiency import Efficiency, count_law, efficiency
from anyorder.chains.family import make_family
from anyorder.chains.kernels import KERNELS, make_kernel
from anyorder.chains.mixing import Mixing, analyse, divergence, poincare_constant, total_variation
from anyorder.chains.parallel import block_loss, entropy_profile, even_schedule, schedule_loss
from anyorder.chains.simulate import NoFit, Simulation, operations, simulate
from anyorder.chains.symmetry import representatives
from anyorder.chains.transition import law, masked_matrix
from anyorder.chains.worlds import World
from anyorder.errors import AnyorderError
from anyorder.masking.priors import parse_prior
from anyorder.stats import Record, to_json


@dataclass(frozen=True)
class MixingRow:
    """One kernel on one world."""

    world: str
    coupling: float
    kernel: str
    block: int
    mixing: Mixing
    tv: float | None  # of the stationary law to the truth
    kl: float | None  # KL(truth ‖ stationary law), nats

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON; a distance that is infinite or has no law to measure is null."""
        found = {"world": self.world, "coupling": to_json(self.coupling), "kernel": self.kernel, "block": self.block}
        return {**found, **self.mixing.to_dict(), "tv_to_truth": self.tv, "kl_to_truth": to_json(self.kl)}


def mixing_study(world: World, blocks: list[int], kernels: list[str], seed: int = 0) -> Iterator[MixingRow]:
    """Every kernel's exact long run on ``world``."""
    truth, orbits = law(world.table), representatives(world.table)
    plans = [(name, k) for k in blocks for name in KERNELS if name in kernels and name != "metropolis"]
    if "metropolis" in kernels:
        plans.append(("metropolis", 1))
    for name, k in plans:
        if name == "parallel" and k == 1 and "gibbs" in kernels:
            continue  # one position alone is no product: the same chain again
        kernel = make_kernel(world.table, name, k, seed)
        mixing = analyse(kernel.matrix, kernel.target, orbits if kernel.symmetric else None)
        pi = mixing.stationary
        tv = None if pi is None else total_variation(pi, truth)
        kl = None if pi is None else divergence(truth, pi)
        yield MixingRow(world.name, world.coupling, kernel.name, kernel.block, mixing, tv, kl)


REPEATS = 200  # fits of an experiment
_AFFORDABLE = 1e12  # operations of an experiment run by default: half a minute


@dataclass(frozen=True)
class EfficiencyRow:
    """One masking law on one world. Without an ``exact`` answer its masks cannot identify the parameters."""

    world: str
    coupling: float
    masks: str
    loss: str
    exact: Efficiency | None
    poincare: float  # of the Gibbs chain with the same masks: theorem 1 bounds the worst direction by it
    simulated: Simulation | None
    simulated_averaged: Simulation | None
    remark: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return {
            "world": self.world,
            "coupling": to_json(self.coupling),
            "masks": self.masks,
            "loss": self.loss,
            **({} if self.exact is None else self.exact.to_dict()),
            "poincare": to_json(self.poincare),
            "simulated": None if self.simulated is None else self.simulated.to_dict(),
            "simulated_averaged": None if self.simulated_averaged is None else self.simulated_averaged.to_dict(),
            "remark": self.remark,
        }


def parse_masks(text: str, n: int) -> list[str]:
    """``1,3,uniform,fixed:0.15,beta:2,5`` -> the masking laws; a comma inside ``beta:a,b`` does not separate."""
    parts: list[str] = []
    for part in (p.strip() for p in text.split(",")):
        if parts and parts[-1].startswith("beta:") and "," not in parts[-1]:
            parts[-1] += "," + part
        else:
            parts.append(part)
    for part in parts:
        count_law(int(part) if part.isdigit() else parse_prior(part), n)
    return parts


def efficiency_row(
    world: World, masks: str, loss: str = "block", *, samples: int = 2000, repeats: int | None = None, seed: int = 0
) -> EfficiencyRow:
    """Theory and experiment for one masking law (a size, or a prior by name).

    ``repeats`` 0 is theory alone; None is as many as usual where that takes seconds, and none elsewhere.
    """
    family = make_family(world)
    counts = count_law(int(masks) if masks.isdigit() else parse_prior(masks), world.table.length)
    poincare = poincare_constant(masked_matrix(world.table, counts), law(world.table))
    try:
        exact = efficiency(family, counts, loss)
    except AnyorderError as error:
        return EfficiencyRow(world.name, world.coupling, masks, loss, None, poincare, None, None, str(error))
    fits: list[Simulation | None] = [None, None]
    remark = ""
    if repeats is None:
        repeats = REPEATS
        if operations(family, counts, loss, repeats) > _AFFORDABLE:
            repeats, remark = 0, f"{repeats} fits of a world this size take minutes: ask for them with --repeats"
    for i, averaged in enumerate((False, True)) if repeats else ():
        try:
            fits[i] = simulate(
                family, counts, exact.bound, samples=samples, repeats=repeats, loss=loss, averaged=averaged, seed=seed
            )
        except NoFit as error:  # the theory stands all the same, and so do the other masks
            remark = str(error)
    return EfficiencyRow(world.name, world.coupling, masks, loss, exact, poincare, fits[0], fits[1], remark)


@dataclass(frozen=True)
class ParallelRow(Record):
    """What products lose on one world, in nats."""

    world: str
    coupling: float
    blocks: dict[int, float]  # k -> E KL(p(x_S | x_-S) ‖ best product)
    steps: dict[int, float]  # number of decoding steps -> KL(p ‖ decoding), averaged over the order


def parallel_row(world: World, blocks: list[int]) -> ParallelRow:
    """Conditional total correlation by block size, and the price of decoding in 1..N steps."""
    n = world.table.length
    profile = entropy_profile(world.table)
    by_steps = {m: schedule_loss(profile, even_schedule(n, m)) for m in range(1, n + 1)}
    return ParallelRow(world.name, world.coupling, {k: block_loss(profile, k) for k in blocks}, by_steps)
