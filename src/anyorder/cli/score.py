"""`anyorder score`: how probable is each text of a file?"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    ReadingOption,
    RemoteCodeOption,
    SeedOption,
    load_model,
    progress,
)
from anyorder.errors import AnyorderError, choose

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

METHODS = ("pll", "pll-word", "chain", "bound")
WINDOW = 256  # texts sorted, scored and written together


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: echo 'The cat sat on the mat.' | anyorder score - --method chain --json")(score)


def _advance(bar: Progress, task: TaskID, before: int, done: int) -> None:
    bar.update(task, completed=before + done)


def score(
    file: Annotated[str, typer.Argument(help="A text a line, .tsv or .jsonl, also .gz and .xz; - is standard input.")],
    method: Annotated[
        str,
        typer.Option(help="pll, pll-word, chain (exact along an order) or bound (any-order, estimated)."),
    ] = "pll",
    order: Annotated[str, typer.Option(help="Of the chain: left-to-right, right-to-left or random.")] = "left-to-right",
    samples: Annotated[
        int | None, typer.Option(help="Masks of the bound (16 if absent), or random orders of the chain (1).")
    ] = None,
    reading: ReadingOption = "auto",
    column: Annotated[
        str | None, typer.Option(help="Name of the JSONL field or TSV column; a number if no header.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="lines, tsv or jsonl; by the file's name if absent.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write here: TSV if the name ends in .tsv, else JSONL.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped; needs --out.")] = False,
    per_token: Annotated[bool, typer.Option("--per-token", help="Also each token's share.")] = False,
    stride: Annotated[int | None, typer.Option(help="New tokens a window, for texts longer than the model.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse texts longer than the model.")] = False,
    json: JsonOption = False,
    seed: SeedOption = 0,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Score texts: log-probabilities in nats, one result a line, in the order of the input.

    A blank line is kept as a text of 0 tokens. A text longer than the model is read in windows, each scoring new
    tokens given those before them. Results appear a window of 256 texts at a time; --out with --resume continues a
    run that was stopped, and the file is byte for byte that of a run that was not.
    """
    choose(method, METHODS, "method")
    if resume and out is None:
        raise AnyorderError("--resume continues a file: name it with --out")
    from anyorder.files.journal import Results, windows
    from anyorder.files.reading import Source
    from anyorder.show.scores import same_json, same_tsv, to_json, to_tsv, tsv_header
    from anyorder.tasks.score import Method
    from anyorder.tasks.score import score as score_texts

    chosen = Method(method, order, samples, seed, reading=reading)
    source = Source(file, column, format)
    tsv = out.suffix == ".tsv" if out is not None and not json else not json
    total = None
    if file != "-":
        # Read once before anything is written: a bad line at the end should not cost the work before it.
        total = sum(1 for _ in source)
    lm = load_model(model, allow_pickle, trust_remote_code, quick=True)
    settings = {
        "model": lm.name,
        "method": method,
        "order": order,
        "samples": chosen.repeats,
        "reading": reading,
        "seed": seed,
        "column": column,
        "per_token": per_token,
        "stride": stride,
        "format": "tsv" if tsv else "jsonl",
    }
    results = Results(out, settings, same_tsv if tsv else same_json, tsv_header(per_token) if tsv else None)
    texts = iter(source)
    if resume:
        results.resume(texts, WINDOW, total)
    else:
        results.check()
    long = 0
    with progress() as bar:
        task = bar.add_task("scoring", total=total, completed=results.written)
        for window in windows(texts, WINDOW):
            scores = score_texts(
                lm,
                window,
                chosen,
                per_token=per_token,
                stride=stride,
                strict=strict,
                first=results.written + 1,
                progress=partial(_advance, bar, task, results.written),
            )
            results.write([to_tsv(s) if tsv else to_json(s) for s in scores])
            long += sum(s.windows > 1 for s in scores)
    results.finish()
    if long:
        print(f"anyorder: {long} texts were longer than the model and were read in windows", file=sys.stderr)
