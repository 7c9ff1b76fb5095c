"""`anyorder diagnose`: how far can this model be trusted to sample, and how?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import JsonOption, ModelOptions, OverwriteOption, command, load_model, print_json, progress
from anyorder.errors import AnyorderError, count
from anyorder.files.disk import check_output
from anyorder.show.figure import check_plot_path
from anyorder.studies.options.generation import DiagnoseOptions

if TYPE_CHECKING:
    from anyorder.studies.diagnose import Diagnosis


@command("anyorder diagnose --data sentences.txt --out report.html")
def diagnose(
    options: DiagnoseOptions,
    model: ModelOptions,
    name: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="The same as --model.", show_default=False)
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="One text per line, .tsv or .jsonl, also .gz and .xz; - is standard input.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Name of the JSONL field or TSV column.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the report here, one HTML page with its plots.")] = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Diagnose a model: dependence between positions, safe block sizes, Gibbs chains, and stutter.

    Measures how much drawing two positions in parallel loses, predicts a safe block size for each text, runs Gibbs
    chains from the text and from masks (autocorrelation, effective sample size, R-hat, escape from the start), and
    counts stutter by sampler and temperature. Ctrl-C reports what is finished.
    """
    if data is None:
        raise AnyorderError("diagnose needs texts: name a file with --data")
    check_plot_path(out, (".html", ".htm"))
    check_output(out, overwrite=overwrite)
    if name is not None and model.model is not None:
        raise AnyorderError(f"two models, {name} and {model.model}: name one")
    from anyorder.files.reading import Source
    from anyorder.studies.diagnose import diagnose as study

    lines = [line for line in Source(data, column) if line.strip()]
    if not lines:
        raise AnyorderError(f"{data} holds no text: give a file with one text per line")
    lm = load_model(replace(model, model=name or model.model))
    found: Diagnosis | None = None
    finished = False
    with progress(quiet=json) as bar, suppress(KeyboardInterrupt):  # what is finished is reported all the same
        task = bar.add_task("starting", total=100)
        for what, share, so_far in study(lm, lines, options):
            found = so_far
            bar.update(task, completed=round(100 * share), description=what)
        finished = True
    if found is not None:
        _report(found, out, json)
    if not finished:
        raise KeyboardInterrupt


def _report(found: Diagnosis, out: Path | None, json: bool) -> None:
    if out is not None:
        from anyorder.show.diagnose_page import page

        try:
            out.write_text(page(found), encoding="utf-8")
        except OSError as error:
            raise AnyorderError(f"cannot write the report {out}: {error}") from None
    if json:
        print_json(found.to_dict())
        return
    for line in found.advice:
        print(line)
    correlation = found.attention_correlation
    if found.pairs:
        print(
            "Attention " + ("is not available." if correlation is None else f"ranks as influence: {correlation:.2f}.")
        )
    if found.skipped:
        print(f"Skipped as too short: {count(found.skipped, 'text')}.")
    if out is not None:
        print(f"Report: {out}")
