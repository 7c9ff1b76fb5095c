"""How strongly two tokens of a real text depend on each other, and what block of them is safe to draw in parallel.

For positions i, j of a text, both masked, the rest observed: the information Î = E_a KL(q(x_i | x_j = a) ‖ q(x_i)) with
a ~ q(x_j) is what drawing the pair in parallel loses, in nats (their conditional total correlation). A block of k
positions loses about C(k, 2) times the mean of its pairs, to second order in the dependence.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.models.attention import attention_of
from anyorder.samplers.draw import inverse_cdf
from anyorder.stats import Record
from anyorder.types import Conditionals

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

# Values of the shown token each information is averaged over.
_DRAWS = 4


@dataclass(frozen=True)
class Dependence(Record):
    """Two positions of one text."""

    text: int
    i: int
    j: int
    neighbours: bool  # measured because they stand side by side; the others were drawn at random
    information: float  # nats lost by drawing the two in parallel, both ways round averaged
    influence: float  # TV a surprise at one causes at the other, the larger way: what the adaptive sampler measures
    attention: float | None  # mean over layers and heads, the larger way


def choose_pairs(free: Tensor, random: int, neighbours: int, generator: torch.Generator) -> list[tuple[int, int, bool]]:
    """Up to ``random`` pairs of free positions [N], uniform without repeats, and up to ``neighbours`` adjacent ones."""
    where = free.nonzero().squeeze(1)
    first, second = torch.triu_indices(len(where), len(where), offset=1)
    chosen = torch.randperm(len(first), generator=generator)[:random]
    pairs = [(int(where[first[c]]), int(where[second[c]]), False) for c in chosen]
    beside = [(int(a), int(b)) for a, b in itertools.pairwise(where) if b == a + 1]
    order = torch.randperm(len(beside), generator=generator)[:neighbours]
    return pairs + [(*beside[int(o)], True) for o in order]


def measure_pairs(
    conditionals: Conditionals, tokens: Tensor, pairs: list[tuple[int, int, bool]], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(information [P], influence [P]) of pairs of positions in one text, tokens [N]; 11 rows of the model per pair."""
    where = torch.tensor([[i, j] for i, j, _ in pairs])  # [P, 2]
    masked = tokens.repeat(len(pairs), 1).scatter(1, where, conditionals.mask_id)
    base = conditionals(masked, where).double()  # [P, 2, V]
    surprise = base.scatter(-1, base.argmax(-1, keepdim=True), -torch.inf)
    surprise = torch.where(torch.isneginf(surprise).all(-1, keepdim=True), base, surprise)
    information, influence = torch.zeros(len(pairs), 2), torch.zeros(len(pairs), 2)
    for shown in (0, 1):  # the position whose token is revealed; the other one listens
        at, other = where[:, [shown]], where[:, [1 - shown]]
        before = base[:, 1 - shown]  # [P, V]
        for draw in range(_DRAWS + 1):
            last = draw == _DRAWS
            u = torch.rand(len(pairs), generator=generator, dtype=torch.float64)
            token = inverse_cdf((surprise if last else base)[:, shown], u)
            after = conditionals(masked.scatter(1, at, token[:, None]), other)[:, 0].double()
            if last:
                influence[:, shown] = (after.exp() - before.exp()).abs().sum(-1) / 2
            else:
                terms = torch.where(after.exp() > 0, after.exp() * (after - before), 0.0)
                information[:, shown] += terms.sum(-1) / _DRAWS
    return information.mean(1), influence.max(1).values


def text_pairs(
    lm: MaskedLM, conditionals: Conditionals, text: int, tokens: Tensor, free: Tensor, count: int, seed: int
) -> list[Dependence]:
    """Measure ``count`` random pairs of one text, tokens [N], free [N], and half as many pairs of neighbours."""
    generator = torch.Generator().manual_seed(seed)
    pairs = choose_pairs(free, count, count // 2, generator)
    information, influence = measure_pairs(conditionals, tokens, pairs, generator)
    seen = attention_of(lm.model, tokens[None])
    return [
        Dependence(text, i, j, beside, float(nats), float(tv), None if seen is None else float(seen[0, i, j]))
        for (i, j, beside), nats, tv in zip(pairs, information, influence, strict=True)
    ]


def safe_block(pair_information: float, length: int, budget: float) -> int:
    """The largest block, up to ``length``, predicted to lose at most ``budget`` nats: C(k, 2) pairs' worth."""
    sizes = range(1, length + 1)
    return max(k for k in sizes if k * (k - 1) / 2 * max(pair_information, 0.0) <= budget)
