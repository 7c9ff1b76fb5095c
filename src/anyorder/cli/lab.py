"""`anyorder lab`: when masked training, and sampling from it, work; exact, on worlds whose joint is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from anyorder.cli.common import JsonOption, PlotOption, app, command, print_json, progress
from anyorder.errors import AnyorderError, choose
from anyorder.show.figure import check_plot_path
from anyorder.studies.options.exact import EfficiencyOptions, MixingOptions, ParallelOptions, WorldOptions

if TYPE_CHECKING:
    from anyorder.chains.stutter import Stutter
    from anyorder.chains.worlds import World
    from anyorder.studies.lab import EfficiencyRow, MixingRow, ParallelRow

lab = typer.Typer(
    no_args_is_help=True, help="Sampling and training, exactly analysed in small worlds whose joint is known."
)
app.add_typer(lab, name="lab")


@command("anyorder lab mixing --world ising-clique --n 6 --coupling 0.2…2.0 --block 1,2,3,6", lab)
def mixing(options: MixingOptions, plot: PlotOption = None, json: JsonOption = False) -> None:
    """How fast the samplers' chains forget their start, and where they end.

    The exact transition matrix of each kernel: its spectral gap, its mixing time (until total variation 1/4 from the
    worst start), and the distance of its stationary distribution to the truth.
    """
    check_plot_path(plot)
    from anyorder.chains.kernels import KERNELS
    from anyorder.chains.worlds import parse_blocks
    from anyorder.show.lab_plot import plot_mixing
    from anyorder.show.lab_table import show_mixing
    from anyorder.studies.lab import mixing_study

    kernels = [choose(name.strip(), KERNELS, "kernel") for name in options.kernel.split(",")]
    worlds, length = _worlds(options)
    blocks = parse_blocks(options.block, length)

    def work() -> Iterator[tuple[str, MixingRow]]:
        for make in worlds:
            for row in mixing_study(make(), blocks, kernels, options.seed):
                yield f"coupling {row.coupling:g}: {row.kernel} {row.block}", row

    per_world = sum(1 for k in blocks for name in kernels if name != "metropolis") + ("metropolis" in kernels)
    per_world -= 1 in blocks and {"gibbs", "parallel"} <= set(kernels)
    rows, interrupted = _collect(work(), len(worlds) * per_world, json)
    settings = {**asdict(options), "n": length, "block": blocks, "kernels": kernels}
    _report({"rows": rows}, settings, plot_mixing, show_mixing, plot, json, interrupted)


@command("anyorder lab efficiency --world ising-chain --n 6 --masks 1,3,6,uniform,fixed:0.15", lab)
def efficiency(options: EfficiencyOptions, plot: PlotOption = None, json: JsonOption = False) -> None:
    """How many samples a masked loss needs, as a multiple of maximum likelihood: exact, and by experiment.

    With --loss block the worst direction never exceeds the Poincaré constant of the Gibbs chain with the same masks:
    training is sample-efficient where sampling mixes. For --loss token no such bound is known.
    """
    check_plot_path(plot)
    from anyorder.show.lab_plot import plot_efficiency
    from anyorder.show.lab_table import show_efficiency
    from anyorder.studies.lab import efficiency_row, parse_masks

    worlds, length = _worlds(options)
    laws = parse_masks(options.masks, length)

    def work() -> Iterator[tuple[str, EfficiencyRow]]:
        for make in worlds:
            here = make()
            for name in laws:
                row = efficiency_row(
                    here, name, options.loss, samples=options.samples, repeats=options.repeats, seed=options.seed
                )
                yield f"coupling {here.coupling:g}: masks {name}", row

    rows, interrupted = _collect(work(), len(worlds) * len(laws), json)
    settings = {**asdict(options), "n": length, "masks": laws}
    _report({"rows": rows}, settings, plot_efficiency, show_efficiency, plot, json, interrupted)


@command("anyorder lab parallel --world ising-clique --n 6 --coupling 0…1 --block 2,3,6", lab)
def parallel(options: ParallelOptions, plot: PlotOption = None, json: JsonOption = False) -> None:
    """What one parallel step can and cannot represent, and the stutter it causes.

    The KL of the best product to the true block conditional (its total correlation), the price of decoding in few
    steps, and the toy world in which two readings differ by a shift ("walking walking").
    """
    check_plot_path(plot)
    from anyorder.chains.stutter import stutter_rates
    from anyorder.chains.worlds import parse_blocks, parse_numbers
    from anyorder.show.lab_plot import plot_parallel
    from anyorder.show.lab_table import show_parallel
    from anyorder.studies.lab import parallel_row

    worlds, length = _worlds(options)
    blocks = parse_blocks(options.block, length)
    stutter_n = options.stutter_n
    toy_couplings = parse_numbers(options.stutter_coupling, "stutter coupling") if stutter_n else []
    temperatures = parse_numbers(options.temperature, "temperature")
    if min(temperatures) <= 0:
        raise AnyorderError("temperatures must be above 0")
    steps = sorted({1, 2, max(1, stutter_n // 2), max(1, stutter_n)}) if stutter_n else []

    def work() -> Iterator[tuple[str, ParallelRow | list[Stutter]]]:
        for make in worlds:
            row = parallel_row(make(), blocks)
            yield f"coupling {row.coupling:g}", row
        for c in toy_couplings:
            yield f"stutter at coupling {c:g}", stutter_rates(stutter_n, [c], steps, temperatures)

    found, interrupted = _collect(work(), len(worlds) + len(toy_couplings), json)
    toy = [s for part in found if isinstance(part, list) for s in part]
    rows = [part for part in found if not isinstance(part, list)]
    settings = {**asdict(options), "n": length, "block": blocks}
    _report({"rows": rows, "stutter": toy}, settings, plot_parallel, show_parallel, plot, json, interrupted)


def _worlds(options: WorldOptions) -> tuple[list[Callable[[], World]], int]:
    """A maker for each coupling, so that no two worlds are held at once, and the number of positions."""
    from anyorder.chains.worlds import make_world, parse_numbers

    make = partial(make_world, options.world, n=options.n, seed=options.seed, vocab=options.vocab)
    couplings = parse_numbers(options.coupling)
    first = make(coupling=couplings[0])
    if first.coupling != couplings[0]:  # a file has no coupling to vary
        return [lambda: first], first.table.length
    make(coupling=max(couplings, key=abs))  # bad input fails before the work
    return [partial(make, coupling=c) for c in couplings], options.n


def _collect(work: Iterator[tuple[str, Any]], total: int, quiet: bool) -> tuple[list[Any], bool]:
    """Run a study behind a progress bar; Ctrl-C keeps the rows that are finished."""
    rows = []
    with progress(quiet) as bar, suppress(KeyboardInterrupt):
        task = bar.add_task("starting", total=total)
        for description, row in work:
            rows.append(row)
            bar.update(task, advance=1, description=description)
        return rows, False
    return rows, True


def _report(
    found: dict[str, list[Any]],
    settings: dict[str, Any],
    draw: Callable[..., None],
    show: Callable[..., None],
    plot: Path | None,
    json: bool,
    interrupted: bool,
) -> None:
    """Draw and print what was found, by the names it has in JSON, and pass Ctrl-C on."""
    if plot is not None and found["rows"]:
        draw(*found.values(), plot)
    if json:
        parts = {name: [row.to_dict() for row in rows] for name, rows in found.items()}
        print_json({**parts, "settings": settings})
    else:
        show(*found.values())
    if interrupted:
        raise KeyboardInterrupt
