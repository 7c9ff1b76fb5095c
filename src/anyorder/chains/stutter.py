"""The stutter toy of Li et al. (remark 1): "The dog was walking walking along the road".

Two readings of a sentence differ by a shift: word i of one stands where word i - 1 of the other does. Positions that
choose their reading independently give the same word twice with probability p(1 - p): a quarter, for readings that
are equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.chains.parallel import decoding_law, even_schedule
from anyorder.chains.structure import stationary, structure
from anyorder.chains.transition import Array, gibbs_matrix, law
from anyorder.chains.worlds import make_world
from anyorder.conditionals.table import Table
from anyorder.stats import Record


@dataclass(frozen=True)
class Stutter(Record):
    """How often neighbours are equal, under the truth and under a way of decoding."""

    coupling: float
    method: str  # "decode" from masks in ``steps``, or "gibbs" run forever with blocks of ``block`` in parallel
    steps: int | None
    block: int | None
    temperature: float
    rate: float
    truth: float


def stutter_share(table: Table, p: Array) -> float:
    """E of the share of neighbouring positions that hold the same word, under the law p [V^N]."""
    states = table.states.numpy()
    return float(p @ (states[:, 1:] == states[:, :-1]).mean(-1)) if states.shape[1] > 1 else 0.0


def stutter_rates(n: int, couplings: list[float], steps: list[int], temperatures: list[float]) -> list[Stutter]:
    """The toy's exact stutter by coupling, decoding steps and temperature, and of parallel Gibbs run forever."""
    found = []
    for coupling in couplings:
        table = make_world("shift", n=n, coupling=coupling).table
        truth = stutter_share(table, law(table))
        for m in steps:
            for temperature in temperatures:
                p = decoding_law(table, even_schedule(n, m), temperature)
                found.append(Stutter(coupling, "decode", m, None, temperature, stutter_share(table, p), truth))
        for block in sorted({2, n // 2, n - 1} - {0, 1, n}):
            matrix = gibbs_matrix(table, block, parallel=True)  # every conditional is positive: irreducible
            p = stationary(matrix, structure(matrix))
            found.append(Stutter(coupling, "gibbs", None, block, 1.0, stutter_share(table, p), truth))
    return found
