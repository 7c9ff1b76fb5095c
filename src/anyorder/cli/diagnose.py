"""`anyorder diagnose`: how far can this model be trusted to sample, and how?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import JsonOption, PickleOption, RemoteCodeOption, SeedOption, load_model, print_json, progress
from anyorder.errors import AnyorderError
from anyorder.show.figure import check_plot_path

if TYPE_CHECKING:
    from anyorder.studies.diagnose import Diagnosis


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: anyorder diagnose --data sentences.txt --out report.html")(diagnose)


def diagnose(
    model: Annotated[
        str | None, typer.Argument(help="A Hugging Face name or a folder; the bundled model if absent.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="A text a line, .tsv or .jsonl, also .gz and .xz; - is standard input.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Name of the JSONL field or TSV column.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the report here, one HTML page with its plots.")] = None,
    texts: Annotated[int, typer.Option(help="Texts whose dependence is measured.")] = 8,
    length: Annotated[int, typer.Option(help="Tokens of a text; longer ones are cut.")] = 24,
    pairs: Annotated[int, typer.Option(help="Random pairs of positions a text.")] = 32,
    budget: Annotated[float, typer.Option(help="Nats a parallel block may lose.")] = 0.1,
    chain_texts: Annotated[int, typer.Option(help="Texts that Gibbs chains are run on; 0 leaves them out.")] = 2,
    chains: Annotated[int, typer.Option(help="Chains a text: half begin at it, half at masks.")] = 4,
    sweeps: Annotated[int, typer.Option(help="Sweeps of each chain.")] = 20,
    samples: Annotated[int, typer.Option(help="Generated texts behind each stutter rate.")] = 16,
    temperature: Annotated[str, typer.Option(help="Temperatures of the stutter rates.")] = "0.7,1.0",
    seed: SeedOption = 0,
    json: JsonOption = False,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Diagnose a model: dependence between positions, safe block sizes, Gibbs chains, and stutter.

    Measures how much drawing two positions in parallel loses, predicts a safe block size for each text, runs Gibbs
    chains from the text and from masks (autocorrelation, effective sample size, R-hat, escape from the start), and
    counts stutter by sampler and temperature. Ctrl-C reports what is finished.
    """
    if data is None:
        raise AnyorderError("diagnose needs texts: name a file with --data")
    check_plot_path(out, (".html", ".htm"))
    from anyorder.chains.worlds import parse_numbers
    from anyorder.files.reading import Source
    from anyorder.studies.diagnose import Settings
    from anyorder.studies.diagnose import diagnose as study

    settings = Settings(
        texts=texts,
        length=length,
        pairs=pairs,
        budget=budget,
        chain_texts=chain_texts,
        chains=chains,
        sweeps=sweeps,
        samples=samples,
        temperatures=tuple(parse_numbers(temperature, "temperature")),
        seed=seed,
    )
    lines = [line for line in Source(data, column) if line.strip()]
    if not lines:
        raise AnyorderError(f"{data} holds no text: give a file with a text a line")
    lm = load_model(model, allow_pickle, trust_remote_code)
    found: Diagnosis | None = None
    interrupted = False
    with progress(quiet=json) as bar:
        task = bar.add_task("starting", total=100)
        try:
            for what, share, so_far in study(lm, lines, settings):
                found = so_far
                bar.update(task, completed=round(100 * share), description=what)
        except KeyboardInterrupt:
            interrupted = True  # what is finished is reported all the same
    if found is not None:
        _report(found, out, json)
    if interrupted:
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
        print(f"Skipped as too short: {found.skipped} texts.")
    if out is not None:
        print(f"Report: {out}")
