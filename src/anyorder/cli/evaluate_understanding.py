"""`anyorder evaluate understanding`: Liao et al.'s Tables 5 to 7."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli.common import (
    JsonOption,
    OverwriteOption,
    ResumeOption,
    bars,
    command,
    print_json,
    progress,
    show,
    write_up,
)
from anyorder.cli.evaluate import evaluate_app, named_models
from anyorder.errors import AnyorderError
from anyorder.show.understanding import difference_table, understanding_markdown, understanding_table
from anyorder.studies.options.understanding import UnderstandingOptions


@command(
    "anyorder evaluate understanding --models bert=runs/bert/final u-pmlm-r=runs/u-pmlm-r/final "
    "--tasks cola,rte,squad2 --data-dir data --lr 5e-4 --out runs/understanding",
    evaluate_app,
)
def understanding(
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
            run_cells(models, options, journal, bars(bar))
        rows = table(journal.records, options.against)
        settings = asdict(options) | {"models": models, **journal_settings(options)}
        result = {"rows": [row.to_dict() for row in rows], "settings": settings}
        write_up(out, "understanding", result, understanding_markdown(rows))
    if json:
        print_json(result)
        return
    show(understanding_table(rows))
    differences = difference_table(rows)
    if differences is not None:
        show(differences)
