"""`anyorder lab`: when masked training, and sampling from it, work; exact, on worlds whose joint is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import JsonOption, SeedOption, print_json, progress
from anyorder.errors import AnyorderError, choose
from anyorder.show.figure import check_plot_path

if TYPE_CHECKING:
    from anyorder.chains.stutter import Stutter
    from anyorder.chains.worlds import World
    from anyorder.studies.lab import EfficiencyRow, MixingRow, ParallelRow

lab = typer.Typer(no_args_is_help=True, help="Exact laws of sampling and training on worlds whose joint is known.")

WorldOption = Annotated[
    str,
    typer.Option(help="random, ising-chain, ising-grid, ising-clique, hmm, shift, or a .json/.npy file of a joint."),
]
NumberOption = Annotated[int, typer.Option("--n", help="Positions of the world.")]
CouplingOption = Annotated[str, typer.Option(help="Strength of dependence: 0.5, 0.2,0.4, 0.2…2.0 or 0.2:2.0:10.")]
VocabOption = Annotated[int, typer.Option(help="Words of the random and hmm worlds.")]
PlotOption = Annotated[Path | None, typer.Option(help="Also draw the result into this file.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(lab, name="lab")


@lab.command(epilog="Example: anyorder lab mixing --world ising-clique --n 6 --coupling 0.2…2.0 --block 1,2,3,6")
def mixing(
    world: WorldOption = "ising-clique",
    n: NumberOption = 6,
    coupling: CouplingOption = "0.5",
    block: Annotated[str, typer.Option(help="Block sizes: 1,2,3 or 1..6.")] = "1,2",
    kernel: Annotated[
        str, typer.Option(help="Which of gibbs, parallel, adaptive, metropolis, with commas between.")
    ] = "gibbs,parallel,adaptive,metropolis",
    vocab: VocabOption = 2,
    plot: PlotOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """How fast the samplers' chains forget their start, and where they end.

    The exact transition matrix of each kernel: its spectral gap, its mixing time (total variation 1/4 from the worst
    start), and the distance of its stationary law to the truth.
    """
    check_plot_path(plot)
    from anyorder.chains.kernels import KERNELS
    from anyorder.chains.worlds import parse_blocks
    from anyorder.studies.lab import mixing_study

    kernels = [choose(name.strip(), KERNELS, "kernel") for name in kernel.split(",")]
    worlds, length = _worlds(world, n, coupling, seed, vocab)
    blocks = parse_blocks(block, length)

    def work() -> Iterator[tuple[str, MixingRow]]:
        for make in worlds:
            for row in mixing_study(make(), blocks, kernels, seed):
                yield f"coupling {row.coupling:g}: {row.kernel} {row.block}", row

    per_world = sum(1 for k in blocks for name in kernels if name != "metropolis") + ("metropolis" in kernels)
    per_world -= 1 in blocks and {"gibbs", "parallel"} <= set(kernels)
    rows, interrupted = _collect(work(), len(worlds) * per_world, json)
    settings = {"world": world, "n": length, "coupling": coupling, "block": blocks, "kernels": kernels, "seed": seed}
    if plot is not None and rows:
        from anyorder.show.lab_plot import plot_mixing

        plot_mixing(rows, plot)
    if json:
        print_json({"rows": [row.to_dict() for row in rows], "settings": settings})
    else:
        from anyorder.show.lab_table import show_mixing

        show_mixing(rows)
    if interrupted:
        raise KeyboardInterrupt


@lab.command(epilog="Example: anyorder lab efficiency --world ising-chain --n 6 --masks 1,3,6,uniform,fixed:0.15")
def efficiency(
    world: WorldOption = "ising-chain",
    n: NumberOption = 6,
    coupling: CouplingOption = "0.5",
    masks: Annotated[
        str, typer.Option(help="Mask sizes and priors: 1,3,uniform,uniform-count,fixed:0.15,beta:2,5.")
    ] = "1,3,6,uniform,fixed:0.15",
    loss: Annotated[
        str, typer.Option(help="block: -log p(x_S | rest), as in the theory; token: each token apart, as MLMs train.")
    ] = "block",
    samples: Annotated[int, typer.Option(help="Samples of one fit.")] = 2000,
    repeats: Annotated[
        int | None,
        typer.Option(help="Fits of the experiment; 0 for theory alone. 200 if absent, where that takes seconds."),
    ] = None,
    vocab: VocabOption = 2,
    plot: PlotOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """How many samples a masked loss needs, as a multiple of maximum likelihood: exact, and by experiment.

    With --loss block the worst direction never exceeds the Poincaré constant of the Gibbs chain with the same masks:
    training is sample-efficient where sampling mixes. For --loss token no such bound is known.
    """
    check_plot_path(plot)
    if repeats and (repeats < 2 or samples < 1):
        raise AnyorderError("an experiment needs at least 2 repeats and 1 sample; --repeats 0 leaves it out")
    from anyorder.chains.efficiency import LOSSES
    from anyorder.studies.lab import efficiency_row, parse_masks

    choose(loss, LOSSES, "loss")
    worlds, length = _worlds(world, n, coupling, seed, vocab)
    laws = parse_masks(masks, length)

    def work() -> Iterator[tuple[str, EfficiencyRow]]:
        for make in worlds:
            here = make()
            for name in laws:
                row = efficiency_row(here, name, loss, samples=samples, repeats=repeats, seed=seed)
                yield f"coupling {here.coupling:g}: masks {name}", row

    rows, interrupted = _collect(work(), len(worlds) * len(laws), json)
    settings = {"world": world, "n": length, "coupling": coupling, "masks": laws, "loss": loss}
    settings |= {"samples": samples, "repeats": repeats, "seed": seed}
    if plot is not None and rows:
        from anyorder.show.lab_plot import plot_efficiency

        plot_efficiency(rows, plot)
    if json:
        print_json({"rows": [row.to_dict() for row in rows], "settings": settings})
    else:
        from anyorder.show.lab_table import show_efficiency

        show_efficiency(rows)
    if interrupted:
        raise KeyboardInterrupt


@lab.command(epilog="Example: anyorder lab parallel --world ising-clique --n 6 --coupling 0…1 --block 2,3,6")
def parallel(
    world: WorldOption = "ising-clique",
    n: NumberOption = 6,
    coupling: CouplingOption = "0.0:1.0:6",
    block: Annotated[str, typer.Option(help="Block sizes: 2,3 or 2..6.")] = "2,3",
    stutter_n: Annotated[int, typer.Option(help="Words of the stutter toy; 0 leaves it out.")] = 4,
    stutter_coupling: Annotated[str, typer.Option(help="Couplings of the stutter toy.")] = "0:8:5",
    temperature: Annotated[str, typer.Option(help="Temperatures of the stutter toy.")] = "1.0",
    vocab: VocabOption = 2,
    plot: PlotOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """What one parallel step can and cannot represent, and the stutter it causes.

    The KL of the best product to the true block conditional (its total correlation), the price of decoding in few
    steps, and the toy world in which two readings differ by a shift ("walking walking").
    """
    check_plot_path(plot)
    from anyorder.chains.stutter import stutter_rates
    from anyorder.chains.worlds import parse_blocks, parse_numbers
    from anyorder.studies.lab import parallel_row

    worlds, length = _worlds(world, n, coupling, seed, vocab)
    blocks = parse_blocks(block, length)
    toy_couplings = parse_numbers(stutter_coupling, "stutter coupling") if stutter_n else []
    temperatures = parse_numbers(temperature, "temperature")
    if min(temperatures) <= 0:
        raise AnyorderError("temperatures must be above 0")
    if stutter_n == 1:
        raise AnyorderError("one word cannot stutter: use --stutter-n 2 or more, or 0 to leave the toy out")
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
    settings = {"world": world, "n": length, "coupling": coupling, "block": blocks, "stutter_n": stutter_n}
    if plot is not None and rows:
        from anyorder.show.lab_plot import plot_parallel

        plot_parallel(rows, toy, plot)
    if json:
        parts = {"rows": [row.to_dict() for row in rows], "stutter": [s.to_dict() for s in toy]}
        print_json({**parts, "settings": settings | {"seed": seed}})
    else:
        from anyorder.show.lab_table import show_parallel

        show_parallel(rows, toy)
    if interrupted:
        raise KeyboardInterrupt


def _worlds(name: str, n: int, coupling: str, seed: int, vocab: int) -> tuple[list[Callable[[], World]], int]:
    """A maker for each coupling, so that no two worlds are held at once, and the number of positions."""
    from functools import partial

    from anyorder.chains.worlds import make_world, parse_numbers

    couplings = parse_numbers(coupling)
    first = make_world(name, n=n, coupling=couplings[0], seed=seed, vocab=vocab)
    if first.coupling != couplings[0]:  # a file has no coupling to vary
        return [lambda: first], first.table.length
    make_world(name, n=n, coupling=max(couplings, key=abs), seed=seed, vocab=vocab)  # bad input fails before the work
    return [partial(make_world, name, n=n, coupling=c, seed=seed, vocab=vocab) for c in couplings], n


def _collect(work: Iterator[tuple[str, Any]], total: int, quiet: bool) -> tuple[list[Any], bool]:
    """Run a study behind a progress bar; Ctrl-C keeps the rows that are finished."""
    rows = []
    with progress(quiet) as bar:
        task = bar.add_task("starting", total=total)
        try:
            for description, row in work:
                rows.append(row)
                bar.update(task, advance=1, description=description)
        except KeyboardInterrupt:
            return rows, True
    return rows, False
