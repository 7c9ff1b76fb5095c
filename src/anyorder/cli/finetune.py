"""`anyorder finetune`: teach any checkpoint a task of GLUE or SQuAD 2.0."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from anyorder.cli.common import JsonOption, OverwriteOption, command, print_json, progress, show
from anyorder.errors import choose, count
from anyorder.files.disk import check_folder, only_writer
from anyorder.show.printable import table
from anyorder.studies.options.understanding import FinetuneOptions


@command("anyorder finetune mrpc --model bert-base-cased --data-dir glue --out runs/mrpc")
def finetune(
    task: Annotated[str, typer.Argument(help="cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte or squad2.")],
    options: FinetuneOptions,
    out: Annotated[Path, typer.Option("--out", help="Folder for the checkpoint, predictions and metrics.")],
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Fine-tune any checkpoint on a task of GLUE or SQuAD 2.0 and measure it, by default with BERT's settings.

    The folder is an ordinary checkpoint of AutoModelForSequenceClassification (or -QuestionAnswering), with
    predictions.jsonl and metrics.json beside it.
    """
    from anyorder.studies.understanding.tasks import NAMES

    choose(task, NAMES, "task")
    check_folder(out, overwrite=overwrite)
    from anyorder.models.load import BUNDLED_NAME
    from anyorder.studies.understanding.learning import learn, read_job

    job = read_job(task, options)
    with only_writer(out), progress(json) as bar:
        shown = bar.add_task(f"{options.model or BUNDLED_NAME} {task}", total=None)
        learned = learn(
            job,
            options.model,
            options,
            options.seed,
            lambda done, total: bar.update(shown, completed=done, total=total),
        )
        settings = {"task": task, **asdict(options)}
        learned.save(out, settings)
    if json:
        print_json({"rows": learned.metrics, "settings": settings})
    else:
        _print(learned.metrics, learned.seconds, out)


def _print(rows: list[dict[str, Any]], seconds: float, out: Path) -> None:
    shown = table(("test set", "metric"), ("value", "95 %", "baseline", "examples"))
    for row in rows:
        ends = f"{row['low']:.1f} to {row['high']:.1f}"
        numbers = (f"{row['value']:.1f}", ends, f"{row['baseline']:.1f}", str(row["examples"]))
        shown.add_row(row["task"], row["metric"], *numbers)
    show(shown)
    first = rows[0]
    cut = f"; {count(first['cut'], 'text')} cut" if first["cut"] else ""
    split = f"; {first['split']}" if "split" in first else ""
    print(f"Learnt from {count(first['train'], 'example')} in {seconds:.0f} s{cut}{split}. The model is in {out}")
