"""`anyorder certify`: hold every sampler against exact joints."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from anyorder.cli.common import JsonOption, PlotOption, command, print_json, progress, show
from anyorder.show.figure import check_plot_path
from anyorder.studies.options.exact import CertifyOptions

if TYPE_CHECKING:
    from anyorder.studies.certify import Verdict

NO_CLAIM = "shown only"


@command("anyorder certify --sampler gibbs --sampler parallel --plot certify.png")
def certify(options: CertifyOptions, plot: PlotOption = None, json: JsonOption = False) -> None:
    """Certify the samplers: total variation to exact joints, beside the floor, that of as many exact draws.

    Chains start from one state away from the truth. A sampler that is exact must be on the floor within 3 standard
    errors; Metropolis on that of the Markov random field (MRF) it targets. Exit status 1 if a claim does not hold.
    """
    check_plot_path(plot)
    from anyorder.studies.certify import SAMPLERS, WORLDS
    from anyorder.studies.certify import certify as study

    chosen = tuple(dict.fromkeys(options.sampler or SAMPLERS))
    verdicts: list[Verdict] = []
    finished = False
    with progress(quiet=json) as bar, suppress(KeyboardInterrupt):  # what is finished is shown all the same
        task = bar.add_task("certifying", total=WORLDS * len(chosen))
        for verdict in study(chosen, draws=options.draws, repeats=options.repeats, seed=options.seed):
            verdicts.append(verdict)
            studies = {(v.world, v.sampler.split(",")[0]) for v in verdicts}
            bar.update(task, completed=len(studies), description=f"{verdict.world}: {verdict.sampler}")
        finished = True
    if json:
        print_json([verdict.to_dict() for verdict in verdicts])
    else:
        _show(verdicts)
    if plot is not None and verdicts:
        from anyorder.show.certify_plot import plot as draw

        draw(verdicts, plot)
    if not finished:
        raise KeyboardInterrupt
    if not all(verdict.ok for verdict in verdicts):
        raise typer.Exit(1)


def _show(verdicts: list[Verdict]) -> None:
    from rich import box
    from rich.table import Table

    table = Table("sampler", box=box.SIMPLE, title="Total variation to the truth, and the floor of as many exact draws")
    for column in ("rows/text", "TV", "floor", "excess"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("ok", no_wrap=True)
    for world in dict.fromkeys(v.world for v in verdicts):
        table.add_section()
        table.add_row(f"[bold]{world}[/]")
        for v in verdicts:
            if v.world != world:
                continue
            mark = ("[green]yes[/]" if v.ok else "[red]NO[/]") if v.claim != NO_CLAIM else "-"
            name = v.sampler if v.target == "truth" else f"{v.sampler}, to the {v.target}"
            table.add_row(name, f"{v.passes:.0f}", f"{v.tv:.4f}", f"{v.floor:.4f}", f"{v.excess:+.1f}", mark)
            if v.target != "truth":
                table.add_row(f"  [dim]the {v.target} itself[/]", "", f"[dim]{v.target_tv:.4f}[/]")
            for rival, tv in (v.against or {}).items():
                table.add_row(f"  [dim]{rival}[/]", f"[dim]{v.passes:.0f}[/]", f"[dim]{tv:.4f}[/]")
    show(
        table,
        "excess: TV above the floor, in standard errors. Exact samplers must stay under 3 (Metropolis to the MRF joint "
        "it targets), parallel ones must not be worse than in one step, adaptive ones not worse than uniform blocks of "
        "equal cost, and better than those in parallel, on the strongly coupled tables.  -: shown, nothing claimed.",
    )
