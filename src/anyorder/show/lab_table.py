"""The laboratory's tables on the terminal."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from anyorder.chains.stutter import Stutter
from anyorder.show.printable import table as new_table
from anyorder.studies.lab import EfficiencyRow, MixingRow, ParallelRow


def show_mixing(rows: list[MixingRow]) -> None:
    """A row for each kernel."""
    table = Table(title="Long run of each kernel; TV and KL of its stationary law to the truth")
    for column in ("coupling", "kernel"):
        table.add_column(column, no_wrap=True)
    for column in ("block", "gap", "steps to mix", "TV", "KL"):
        table.add_column(column, justify="right", no_wrap=True)
    last = None
    for row in rows:
        if last is not None and row.coupling != last and not math.isnan(last):
            table.add_section()
        last = row.coupling
        time = row.mixing.mixing_time
        steps = ("> " if row.mixing.mixing_time_is_bound else "") + (f"{time:.0f}" if time < 1e6 else f"{time:.2e}")
        tv = "–" if row.tv is None else f"{row.tv:.4f}"
        kl = "" if row.kl is None else f"{row.kl:.4f}"
        coupling = "" if math.isnan(row.coupling) else f"{row.coupling:g}"  # a table from a file has none
        table.add_row(coupling, row.kernel, str(row.block), f"{row.mixing.gap:.2e}", steps, tv, kl)
    Console().print(table)
    for row in rows:
        if row.mixing.remark:
            Console().print(f"{row.kernel}, block {row.block}: {row.mixing.remark}", highlight=False)


def show_efficiency(rows: list[EfficiencyRow]) -> None:
    """A row for each masking law, theory beside experiment."""
    several = len({row.coupling for row in rows}) > 1
    numbers = ("one mask", "fits", "all masks", "fits", "worst", "≤ C")
    table = new_table(("masks",), numbers, "Variance of the estimator / Cramér–Rao, exact and by fits")
    table.caption = (
        "worst: the worst direction of θ; C: the Poincaré constant of Gibbs with the same masks; "
        "∞: such masks do not identify the parameters"
    )
    for row in rows:
        name = f"{row.masks} @{row.coupling:g}" if several else row.masks
        if row.exact is None:
            table.add_row(name, "∞", "", "∞", "", "∞", "")
            continue
        missing = "none" if row.remark else ""
        both = (row.simulated, row.simulated_averaged)
        fits = [missing if s is None else f"{s.ratio:.2f} ± {s.standard_error:.2f}" for s in both]
        exact = row.exact
        # Theorem 1 is about the block loss: the token loss has no such bound.
        bound = f"{row.poincare:.4g}" if row.loss == "block" else ""
        table.add_row(
            name, f"{exact.ratio:.3f}", fits[0], f"{exact.averaged_ratio:.3f}", fits[1], f"{exact.worst:.3f}", bound
        )
    Console().print(table)
    for remark in dict.fromkeys(row.remark for row in rows if row.exact and row.remark):
        Console(stderr=True).print(f"none: {remark}", highlight=False)


def show_parallel(rows: list[ParallelRow], toy: list[Stutter]) -> None:
    """What products lose by coupling, then the stutter toy."""
    if rows:
        title = "Nats lost by a product: in one block of k, and by decoding in K steps"
        names = [*(f"k={k}" for k in rows[0].blocks), *(f"K={m}" for m in rows[0].steps)]
        table = new_table(("coupling",), names, title)
        for row in rows:
            values = [*row.blocks.values(), *row.steps.values()]
            table.add_row(f"{row.coupling:g}", *(f"{value:.3f}" for value in values))
        Console().print(table)
    if toy:
        table = Table("coupling", "method", "temperature", title="Stutter toy: neighbours that hold the same word")
        table.add_column("rate", justify="right")
        table.add_column("truth", justify="right")
        for s in toy:
            method = f"decode, steps {s.steps}" if s.method == "decode" else f"parallel Gibbs, block {s.block}"
            table.add_row(f"{s.coupling:g}", method, f"{s.temperature:g}", f"{s.rate:.4f}", f"{s.truth:.4f}")
        Console().print(table)
