"""`anyorder evaluate understanding`: Liao et al.'s Tables 5 to 7."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from anyorder.cli.common import JsonOption, OverwriteOption, ResumeOption, command, print_json, progress
from anyorder.cli.evaluate_perplexity import named_models
from anyorder.errors import AnyorderError
from anyorder.stats import to_json
from anyorder.studies.options import UnderstandingOptions

_EPILOG = (
    "Example: anyorder evaluate understanding --models bert=runs/bert/final u-pmlm-r=runs/u-pmlm-r/final "
    "--tasks cola,rte,squad2 --data-dir data --lr 5e-4 --out runs/understanding"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, name="understanding", epilog=_EPILOG)(evaluate_understanding)


def evaluate_understanding(
    options: UnderstandingOptions,
    more: Annotated[list[str] | None, typer.Argument(help="Further models.", show_default=False)] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the journal and the tables.")] = Path(
        "runs/understanding"
    ),
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """GLUE and SQuAD 2.0 for several models: every metric as GLUE defines it, over seeds, compared with BERT.

    Each model is fine-tuned on each task alone; --multi-task adds rows that learnt all tasks together first. It may be
    killed at any moment: --resume goes on and ends with the same table. The same --out takes further models and tasks.
    """
    from anyorder.studies.understanding.tasks import chosen

    chosen(options.tasks)
    models = {name: str(path) for name, path in named_models([*options.models, *(more or [])]).items()}
    if any(name.endswith("*") for name in models):
        raise AnyorderError("a * ends the names of models that learnt all tasks together: choose another name")
    from anyorder.files.disk import only_writer
    from anyorder.files.journal import Journal
    from anyorder.studies.understanding.table import journal_settings, run_cells, table

    with only_writer(out / "cells.jsonl"):
        journal = Journal(out / "cells.jsonl", journal_settings(options), resume=resume, overwrite=overwrite)
        with progress(json) as bar:
            tasks: dict[str, Any] = {}

            def report(what: str, done: int, total: int) -> None:
                task = tasks[what] if what in tasks else tasks.setdefault(what, bar.add_task(what, total=total))
                bar.update(task, completed=done, visible=done < total)

            run_cells(models, options, journal, report)
        rows = table(journal.records, options.against)
        settings = asdict(options) | {"models": models, **journal_settings(options)}
        result = {"rows": [row.to_dict() for row in rows], "settings": settings}
        _write(out, result, rows)
    if json:
        print_json(result)
    else:
        _print(rows)


def _write(out: Path, result: dict[str, Any], rows: list[Any]) -> None:
    from anyorder.show.understanding import understanding_markdown

    text = json.dumps(to_json(result), indent=2, allow_nan=False)
    (out / "understanding.json").write_text(text + "\n", encoding="utf-8")
    (out / "understanding.md").write_text(understanding_markdown(rows) + "\n", encoding="utf-8")


def _print(rows: list[Any]) -> None:
    from rich.console import Console

    from anyorder.show.understanding import difference_table, understanding_table

    Console().print(understanding_table(rows))
    differences = difference_table(rows)
    if differences is not None:
        Console().print(differences)
