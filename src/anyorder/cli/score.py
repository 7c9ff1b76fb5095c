"""`anyorder score`: how probable is each text?"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOptions,
    OverwriteOption,
    ResumeOption,
    command,
    count,
    load_model,
    progress,
)
from anyorder.errors import AnyorderError
from anyorder.tasks.options import ScoreOptions

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

WINDOW = 256  # texts sorted, scored and written together


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, epilog="Example: anyorder score 'The cat sat on the mat.'   or   anyorder score texts.txt --json")(
        score
    )


def score(
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...|FILE",
            help="Texts in quotes; or one file, a text per line, .tsv or .jsonl, also .gz and .xz; - is stdin.",
        ),
    ],
    options: ScoreOptions,
    model: ModelOptions,
    column: Annotated[
        str | None, typer.Option(help="Name of the JSONL field or TSV column; a number if no header.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="lines, tsv or jsonl; by the file's name if absent.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write here: TSV if the name ends in .tsv, else JSONL.")] = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Score texts: log-probabilities in nats, one result per line, in the order of the input.

    A blank line is kept as a text of 0 tokens. A text longer than the model is read in windows, each scoring new
    tokens given those before them. Results appear a window of 256 texts at a time; --out with --resume continues a
    run that was stopped, and the file is byte for byte that of a run that was not.
    """
    if resume and out is None:
        raise AnyorderError("--resume continues a file: name it with --out")
    from anyorder.files.journal import Results, windows
    from anyorder.show.scores import Tsv, same_json, to_json
    from anyorder.tasks.score import score as score_texts

    source, total = _source(texts, column, format)
    tsv = out.suffix == ".tsv" if out is not None and not json else not json
    form = Tsv(options)
    settings = {"dtype": model.dtype, **asdict(options), "column": column}
    settings["format"] = "tsv" if tsv else "jsonl"
    results = Results(out, settings, form.same if tsv else same_json, form.header if tsv else None)
    if not resume:
        results.check(overwrite)
    lm = load_model(model, quick=True)
    settings["model"] = lm.name
    remaining = iter(source)
    if resume:
        results.resume(remaining, WINDOW, total)
    long = 0
    with progress() as bar:
        task = bar.add_task("scoring", total=total, completed=results.written)
        for window in windows(remaining, WINDOW):
            report = partial(_advance, bar, task, results.written)
            scores = score_texts(lm, window, options, first=results.written + 1, progress=report)
            results.write([form.line(s) if tsv else to_json(s) for s in scores])
            long += sum(s.windows > 1 for s in scores)
    results.finish()
    if tsv and out is None:
        print(f"log_prob: {options.meaning}", file=sys.stderr)
    if long:
        verb = "was" if long == 1 else "were"
        print(
            f"anyorder: {count(long, 'text')} {verb} longer than the model and {verb} read in windows", file=sys.stderr
        )


def _advance(bar: Progress, task: TaskID, before: int, done: int) -> None:
    bar.update(task, completed=before + done)


def _source(given: list[str], column: str | None, format: str | None) -> tuple[Iterable[str], int | None]:
    """The texts and how many there are: those given themselves, or those of the one file that is given."""
    from anyorder.files.reading import Source, is_file_name

    files = [one for one in given if is_file_name(one)]
    if not files and column is None and format is None:
        return given, len(given)
    if len(given) > 1:
        raise AnyorderError(f"{given[0]!r} and {count(len(given) - 1, 'other')}: give one file, or texts in quotes")
    source = Source(given[0], column, format)
    # Read once before anything is written: a bad line at the end should not cost the work before it.
    return source, None if given[0] == "-" else sum(1 for _ in source)
