"""Which samplers there are, and what may be said about each: declared once, for Python, the command and the docs.

A sampler's options are the fields of a frozen dataclass: a default, a help text (``metadata["help"]``), and checks.
An option that the chosen sampler does not have is refused. Reading this file does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from anyorder.errors import AnyorderError, choose
from anyorder.options import option

if TYPE_CHECKING:
    import numpy as np

    from anyorder.samplers.adaptive import Influence
    from anyorder.samplers.draw import Warper
    from anyorder.text.template import Layout
    from anyorder.types import Conditionals, Ordered, Sampler

INFLUENCES = ("tokens", "attention")  # what the adaptive sampler measures dependence by

# The least of each option that counts something, in words.
_LEAST = {"speculate": "one guess", "steps": "one step", "block": "a block of one token", "blocks": "one block"}
_STEPS = "Steps of parallel and refine (at most one per token), or of a chain (gibbs, adaptive, metropolis)."
_BLOCK = "Tokens resampled together by gibbs and adaptive."
_DRAFT = "A text to start from in place of masks; all of it may change."


@dataclass(frozen=True)
class Task:
    """What a sampler is made from, besides its options."""

    conditionals: Conditionals
    ordered: Ordered | None  # the same read in order, if it is to be
    layout: Layout
    warper: Warper | None
    greedy: bool
    attention: Callable[[], Influence]  # dependence measured by the model's attention
    losses: np.ndarray | None = None  # [blanks] of a hidden token at each number of revealed ones, by the model's curve

    @property
    def blanks(self) -> int:
        """Tokens that may change."""
        return int(self.layout.free.sum())

    @property
    def masks(self) -> int:
        """Those among them that hold nothing yet: all, unless there is a draft."""
        return int((self.layout.free & (self.layout.tokens == self.conditionals.mask_id)).sum())


class Made(NamedTuple):
    """A sampler, and what is known of it before it draws."""

    sampler: Sampler[Any]
    steps: int  # at most where it ends by itself, else as many as it is to make
    price: float | None = None  # nats it loses against one token per step, in expectation


@dataclass(frozen=True)
class SamplerOptions:
    """The options of one sampler; made with unusable values it raises AnyorderError."""

    in_order: ClassVar[bool] = False  # goes token by token, so that the model may be read in order

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name, None)
            if value is not None and value < 1:
                raise AnyorderError(f"at least {least} is needed, not {value}: raise --{name}")

    def make(self, task: Task) -> Made:
        """The sampler for a task."""
        raise NotImplementedError

    def alike(self, task: Task) -> Hashable:
        """What must be equal for texts to share a batch, each with what it gets alone; None: it goes alone."""
        return task.blanks, task.masks


@dataclass(frozen=True)
class AnyOrder(SamplerOptions):
    """Algorithm 1, :func:`anyorder.samplers.any_order`."""

    in_order: ClassVar[bool] = True
    order: str | Sequence[int] = option(
        "random",
        "Which token comes next: left-to-right, right-to-left, random, confidence, entropy, or given:3,7,1,... (tokens "
        "to generate, counted from 1); parallel: confidence, margin, entropy or random.",
    )

    speculate: int | None = option(
        None,
        "any-order, read in order: guess this many tokens per step and keep those that speculative decoding accepts. "
        "The same distribution in fewer passes, for one text or a few; 8 is a good number.",
    )

    def __post_init__(self) -> None:
        from anyorder.samplers.orders import UNCERTAINTY, parse

        super().__post_init__()
        order = parse(self.order)
        if self.speculate and isinstance(order, str) and order in UNCERTAINTY:
            raise AnyorderError(f"the order {order!r} is decided token by token: leave out --speculate, or the order")

    def make(self, task: Task) -> Made:
        """See :class:`SamplerOptions`."""
        from anyorder.samplers.any_order import any_order
        from anyorder.samplers.speculative import speculative
        from anyorder.tasks.fill import numbered

        order = numbered(self.order, task.layout)
        if self.speculate:
            if task.ordered is None:
                raise AnyorderError(
                    "--speculate needs a model read in order: leave it out, or take one trained with objective.ordered"
                )
            sampler = speculative(task.ordered, guesses=self.speculate, order=order, warper=task.warper)
            return Made(sampler, task.blanks)
        return Made(any_order(task.ordered or task.conditionals, order=order, warper=task.warper), task.blanks)

    def alike(self, task: Task) -> Hashable:
        """Each row goes its own way, unless the order is that of one text's tokens."""
        from anyorder.samplers.orders import parse

        return "any" if isinstance(parse(self.order), str) else None


@dataclass(frozen=True)
class Parallel(SamplerOptions):
    """Several tokens per step, :func:`anyorder.samplers.parallel`."""

    order: str | Sequence[int] = option("confidence", AnyOrder.__dataclass_fields__["order"].metadata["help"])
    steps: int | None = option(None, _STEPS)
    schedule: str | None = option(
        None,
        "How many tokens parallel commits per step: optimal (least loss by the model's curve; the default where the "
        "model has one), linear, or cosine (few first).",
    )
    epsilon: float | None = option(
        None,
        "parallel commits tokens while their entropies sum to less than this many nats, never fewer than --steps asks.",
    )
    pairs: bool = option(False, "parallel: draw neighbours from their joint, not as if they were independent.")

    def __post_init__(self) -> None:
        from anyorder.metrics.schedules import SCHEDULES
        from anyorder.samplers.parallel import COMMITS, check

        super().__post_init__()
        if self.order not in COMMITS:
            raise AnyorderError(
                f"parallel commits by {', '.join(COMMITS)}, not in the order {self.order!r}: choose one"
            )
        check(self.steps, str(self.order), "linear", self.epsilon)
        if self.schedule is not None:
            choose(self.schedule, SCHEDULES, "schedule")

    def make(self, task: Task) -> Made:
        """See :class:`SamplerOptions`."""
        from anyorder.joints.pair_draw import pair_draw
        from anyorder.samplers.parallel import parallel

        steps = self._steps(task)
        blocks = () if steps is None else self._blocks(task, steps)
        sampler = parallel(
            task.conditionals,
            steps=steps,
            commit=str(self.order),
            schedule=lambda _: blocks,
            epsilon=self.epsilon,
            warper=task.warper,
            pair_draw=pair_draw(task.conditionals) if self.pairs else None,
        )
        return Made(sampler, task.blanks if steps is None else steps, self._price(task, blocks))

    def _steps(self, task: Task) -> int | None:
        """How many there are; None: the entropy bound alone takes as many as it takes."""
        return None if self.steps is None and self.epsilon is not None else min(self.steps or 16, task.blanks)

    def _blocks(self, task: Task, steps: int) -> tuple[int, ...]:
        """How many tokens each step commits."""
        from anyorder.metrics.schedules import FORMULAS, optimal

        name = self.schedule or ("linear" if task.losses is None else "optimal")
        if name in FORMULAS:
            return FORMULAS[name](task.blanks, steps)
        if task.losses is None:
            raise AnyorderError(
                "the optimal schedule needs the model's curve: measure it with `anyorder evaluate schedule --data FILE "
                "--out FOLDER/curve.json`, or choose --schedule linear or cosine"
            )
        return optimal(task.losses, steps)

    def _price(self, task: Task, blocks: tuple[int, ...]) -> float | None:
        """Known where the curve is, for what it describes: random places, the model's own probabilities, no pairs."""
        from anyorder.metrics.schedules import price

        described = self.order == "random" and task.warper is None and self.epsilon is None and not self.pairs
        return price(task.losses, blocks) if described and task.losses is not None else None

    def alike(self, task: Task) -> Hashable:
        """One schedule serves the rows of a batch; pairs are drawn without knowing of which row they are."""
        steps = self._steps(task)
        return None if self.pairs else "any" if steps is None else (task.blanks, self._blocks(task, steps))


@dataclass(frozen=True)
class Gibbs(SamplerOptions):
    """Blocks resampled again and again, :func:`anyorder.samplers.gibbs`."""

    steps: int | None = option(None, _STEPS)
    block: int | None = option(None, _BLOCK)
    mode: str = option("parallel", "gibbs inside a block: parallel or sequential.")
    draft: str | None = option(None, _DRAFT)

    def __post_init__(self) -> None:
        from anyorder.samplers.gibbs import MODES

        super().__post_init__()
        choose(self.mode, MODES, "Gibbs mode")

    def make(self, task: Task) -> Made:
        """See :class:`SamplerOptions`."""
        from anyorder.samplers.gibbs import gibbs

        block = self.block or max(1, task.blanks // 16)
        sampler = gibbs(task.conditionals, block=block, mode=self.mode, warper=task.warper)
        return Made(sampler, _chain_steps(task, self.steps, block, sweeps=2, name="gibbs"))


@dataclass(frozen=True)
class Refine(SamplerOptions):
    """Mask-predict, :func:`anyorder.samplers.refine`."""

    steps: int | None = option(None, _STEPS)
    start: str | None = option(None, "What refine starts from: masks, random tokens, or given (the text of --draft).")
    draft: str | None = option(None, _DRAFT)

    def __post_init__(self) -> None:
        from anyorder.samplers.refine import STARTS

        super().__post_init__()
        if self.start is not None:
            choose(self.start, STARTS, "start")
            if (self.start == "given") != (self.draft is not None):
                raise AnyorderError("refine starts from a given text or from none: use --start given with --draft only")

    def make(self, task: Task) -> Made:
        """See :class:`SamplerOptions`."""
        from anyorder.samplers.refine import refine

        steps = min(self.steps or 10, task.blanks)
        start = self.start or ("masks" if self.draft is None else "given")
        return Made(refine(task.conditionals, steps=steps, start=start, greedy=task.greedy, warper=task.warper), steps)

    def alike(self, task: Task) -> Hashable:
        """All rows make as many steps."""
        return self.make(task).steps


@dataclass(frozen=True)
class Metropolis(SamplerOptions):
    """A chain on the MRF energy, :func:`anyorder.samplers.metropolis`."""

    steps: int | None = option(None, _STEPS)
    draft: str | None = option(None, _DRAFT)

    def make(self, task: Task) -> Made:
        """See :class:`SamplerOptions`."""
        from anyorder.samplers.metropolis import metropolis

        sampler = metropolis(task.conditionals, warper=task.warper)
        return Made(sampler, _chain_steps(task, self.steps, 1, sweeps=1, name="metropolis"))


@dataclass(frozen=True)
class Adaptive(SamplerOptions):
    """Gibbs with blocks chosen by dependence, :func:`anyorder.samplers.adaptive`."""

    steps: int | None = option(None, _STEPS)
    block: int | None = option(None, _BLOCK)
    blocks: int = option(4, "adaptive: at most this many blocks side by side in one step.")
    threshold: float = option(
        0.05, "adaptive: largest dependence between two blocks (total variation, 0 to 1); 0 allows none."
    )
    sharpness: float = option(8.0, "adaptive: a token joins a block with probability ∝ dependence^sharpness.")
    influence: str = option(
        "tokens",
        "How adaptive measures dependence: tokens (what changing one does to the others) or attention (cheaper).",
    )
    draft: str | None = option(None, _DRAFT)

    def __post_init__(self) -> None:
        super().__post_init__()
        choose(self.influence, INFLUENCES, "influence")

    def make(self, task: Task) -> Made:
        """See :class:`SamplerOptions`."""
        from anyorder.samplers.adaptive import adaptive

        block = self.block or 2
        influence = task.attention() if self.influence == "attention" else None
        sampler = adaptive(
            task.conditionals, block=block, blocks=self.blocks, threshold=self.threshold, sharpness=self.sharpness,
            influence=influence, warper=task.warper,
        )  # fmt: skip
        return Made(sampler, _chain_steps(task, self.steps, block, sweeps=1, name="adaptive"))

    def alike(self, task: Task) -> Hashable:
        """Attention is measured over whole rows, padding and all."""
        return None if self.influence == "attention" else super().alike(task)


REGISTRY: dict[str, type[SamplerOptions]] = {
    "any-order": AnyOrder,
    "parallel": Parallel,
    "gibbs": Gibbs,
    "refine": Refine,
    "metropolis": Metropolis,
    "adaptive": Adaptive,
}
SAMPLERS = tuple(REGISTRY)
# Without a name: the first of these that has all the options that were given.
_USUAL = ("any-order", "parallel", "refine")


def options_of(sampler: str | None, given: Mapping[str, Any]) -> tuple[str, SamplerOptions]:
    """The sampler's name and its options.

    Args:
        sampler: One of ``SAMPLERS``, or None for the usual one that has the given options.
        given: Options by name; None and False were not given.

    Raises:
        AnyorderError: The sampler does not have one of the options, or its value is unusable.
    """
    said = {name: value for name, value in given.items() if value is not None and value is not False}
    if sampler is None:
        sampler = next((name for name in _USUAL if said.keys() <= names(name)), _USUAL[0])
    kind = REGISTRY[choose(sampler, SAMPLERS, "sampler")]
    for name in said:
        if name not in names(sampler):
            others = " or ".join(holders(name))
            raise AnyorderError(f"the sampler {sampler!r} has no --{name}: leave it out, or choose {others}")
    return sampler, kind(**said)


def names(sampler: str) -> set[str]:
    """The options a sampler has."""
    return {one.name for one in fields(REGISTRY[sampler])}


def holders(option_name: str) -> tuple[str, ...]:
    """The samplers that have an option."""
    return tuple(name for name in SAMPLERS if option_name in names(name))


def _chain_steps(task: Task, steps: int | None, block: int, *, sweeps: int, name: str) -> int:
    """Chains fill their masks first and then go on for as long as they are told, or for some sweeps."""
    filling = math.ceil(task.masks / block)
    if steps is None:
        return filling + sweeps * math.ceil(task.blanks / block)
    if steps < filling:
        remedy = " or --block" if "block" in names(name) else ""
        raise AnyorderError(f"{name} needs {filling} steps to fill {task.masks} blanks once: raise --steps{remedy}")
    return steps
