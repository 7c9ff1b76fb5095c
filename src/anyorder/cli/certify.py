"""`anyorder certify`: hold every sampler against exact joints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import JsonOption, SeedOption, choose, print_json, progress
from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from anyorder.reports.certify import Verdict


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: anyorder certify --sampler gibbs --sampler parallel --plot certify.png")(certify)


def certify(
    sampler: Annotated[
        list[str] | None,
        typer.Option(help="any-order, gibbs, metropolis, parallel, adaptive, refine; may be repeated. All if absent."),
    ] = None,
    draws: Annotated[int, typer.Option(help="Texts in one histogram; more show smaller errors.")] = 1000,
    repeats: Annotated[int, typer.Option(help="Histograms each sampler is judged by.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Also draw the result into this file.")] = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Certify the samplers: total variation to exact joints, beside the floor of as many exact independent draws.

    Chains start from one state away from the truth. A sampler that is exact must sit on the floor within 3 standard
    errors; Metropolis on the floor of the MRF joint it targets. Exit status 1 if a claim does not hold.
    """
    if draws < 10 or repeats < 2:
        raise AnyorderError("a certificate needs at least 10 draws and 2 repeats: raise --draws or --repeats")
    if plot is not None and not plot.parent.is_dir():
        raise AnyorderError(f"there is no folder {plot.parent} for the plot: create it first")
    from anyorder.reports.certify import SAMPLERS, WORLDS
    from anyorder.reports.certify import certify as study

    chosen = tuple(dict.fromkeys(choose(name, SAMPLERS, "sampler") for name in sampler or SAMPLERS))
    verdicts: list[Verdict] = []
    interrupted = False
    with progress(quiet=json) as bar:
        task = bar.add_task("certifying", total=WORLDS * len(chosen))
        try:
            for verdict in study(chosen, draws=draws, repeats=repeats, seed=seed):
                verdicts.append(verdict)
                studies = {(v.world, v.sampler.split(",")[0]) for v in verdicts}
                bar.update(task, completed=len(studies), description=f"{verdict.world}: {verdict.sampler}")
        except KeyboardInterrupt:
            interrupted = True  # what is finished is shown all the same
    if json:
        print_json([verdict.to_dict() for verdict in verdicts])
    else:
        _show(verdicts)
    if plot is not None and verdicts:
        from anyorder.reports.certify_plot import plot as draw

        draw(verdicts, plot)
    if interrupted:
        raise KeyboardInterrupt
    if not all(verdict.ok for verdict in verdicts):
        raise typer.Exit(1)


def _show(verdicts: list[Verdict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("world", "sampler", title="Total variation to the truth, and the floor of as many exact draws")
    for column in ("rows/text", "TV", "floor", "excess, s.e."):
        table.add_column(column, justify="right")
    table.add_column("claim")
    table.add_column("ok")
    world = ""
    for v in verdicts:
        if world and v.world != world:
            table.add_section()
        claim = v.claim
        if v.target != "truth":
            claim += f" of the {v.target} (TV {v.target_tv:.3f} to the truth)"
        if v.against:
            claim += ": " + ", ".join(f"{name} {tv:.4f}" for name, tv in v.against.items())
        mark = "[green]yes[/]" if v.ok else "[red]NO[/]"
        shown = v.world if v.world != world else ""
        numbers = (f"{v.passes:.0f}", f"{v.tv:.4f}", f"{v.floor:.4f}", f"{v.excess:+.1f}")
        table.add_row(shown, v.sampler, *numbers, claim, mark)
        world = v.world
    Console().print(table)
