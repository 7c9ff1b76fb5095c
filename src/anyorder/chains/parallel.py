"""What a parallel step can represent: a product. What it loses: the dependence inside the block (Li et al., theorem 3).

The product nearest to p(x_B | x_A) in KL is that of its marginals, and the divergence is the conditional total
correlation TC(x_B | x_A) = Σ_{t∈B} H(x_t | x_A) - H(x_B | x_A). Averaged over random sets it depends only on the mean
entropy h(c) of c positions, so a whole decoding schedule is priced by N + 1 numbers.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from math import comb

import numpy as np

from anyorder.chains.transition import Array, conditional, joint
from anyorder.chains.worlds import check_memory
from anyorder.conditionals.table import Table
from anyorder.errors import AnyorderError
from anyorder.metrics.schedules import linear


def entropy_profile(table: Table) -> Array:
    """[N+1] h(c) in nats: the entropy of c positions, on average over which."""
    n = table.length
    total = np.zeros(n + 1)

    def visit(p: Array, kept: int, next_axis: int) -> None:
        """Add the entropy of this marginal, then sum out each later axis in turn: every subset is met once."""
        flat = p[p > 0]
        total[kept] -= float((flat * np.log(flat)).sum())
        for axis in range(next_axis, n):
            visit(p.sum(axis=axis, keepdims=True), kept - 1, axis + 1)

    visit(joint(table), n, 0)
    return total / np.array([comb(n, c) for c in range(n + 1)])


def total_correlation(profile: Array, given: int, block: int) -> float:
    """E TC(x_B | x_A) over random disjoint A, B of these sizes: |B| (h(|A|+1) - h(|A|)) - (h(|A|+|B|) - h(|A|))."""
    if given < 0 or block < 0 or given + block >= len(profile):
        raise AnyorderError(f"{given} + {block} positions do not fit in a world of {len(profile) - 1}")
    if block < 2:
        return 0.0
    single = profile[given + 1] - profile[given]
    return max(0.0, float(block * single - (profile[given + block] - profile[given])))


def block_loss(profile: Array, block: int) -> float:
    """What one parallel Gibbs step with blocks of this size loses: E KL(p(x_S | x_-S) ‖ best product)."""
    return total_correlation(profile, len(profile) - 1 - block, block)


def even_schedule(length: int, steps: int) -> list[int]:
    """How many positions each step of :func:`anyorder.samplers.parallel` commits: ⌊N t/K⌋ in all by step t."""
    if not 1 <= steps <= length:
        raise AnyorderError(f"{steps} steps for {length} positions: use 1 to {length}")
    return list(linear(length, steps))


def schedule_loss(profile: Array, schedule: list[int]) -> float:
    """KL(p ‖ decoding in random groups of these sizes): the total correlations of its steps, summed.

    Exact for a given sequence of groups, and here averaged over them; the law of the output, which mixes all
    sequences, is at most that far.
    """
    given, loss = 0, 0.0
    for block in schedule:
        loss += total_correlation(profile, given, block)
        given += block
    return loss


def decoding_law(table: Table, schedule: list[int], temperature: float = 1.0) -> Array:
    """[V^N] the exact law of a text decoded from masks in random groups of these sizes, each group in parallel.

    Args:
        table: the world.
        schedule: group sizes, summing to N.
        temperature: of every conditional.
    """
    n = table.length
    if sum(schedule) != n:
        raise AnyorderError(f"a schedule for {n} positions cannot commit {sum(schedule)}")
    if temperature <= 0:
        raise AnyorderError(f"the temperature must be above 0, not {temperature}")
    p = joint(table)
    check_memory(8.0 * p.size * (2**n + 4), f"every conditional of {p.size} states")

    @cache
    def warm(t: int, given: frozenset[int]) -> Array:
        unknown = tuple(d for d in range(n) if d not in given and d != t)
        return conditional(p.sum(axis=unknown, keepdims=True) ** (1 / temperature), t, ())

    # The law of the first groups depends on the set committed so far, not on its order: one table per set.
    laws: dict[frozenset[int], Array] = {frozenset(): np.ones([1] * n)}
    for size in schedule:
        after: dict[frozenset[int], Array] = {}
        for given, q in laws.items():
            rest = [t for t in range(n) if t not in given]
            for group in combinations(rest, size):
                further = q / comb(len(rest), size)
                for t in group:
                    further = further * warm(t, given)
                key = given | set(group)
                after[key] = after[key] + further if key in after else further
        laws = after
    (law,) = laws.values()
    return law.reshape(-1)
