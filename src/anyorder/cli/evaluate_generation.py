"""`anyorder evaluate generation`: text quality and time against the number of steps."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOptions,
    OverwriteOption,
    command,
    load_model,
    print_json,
    progress,
)
from anyorder.errors import AnyorderError, choose
from anyorder.files.disk import check_output
from anyorder.stats import to_json
from anyorder.studies.options import GenerationOptions

if TYPE_CHECKING:
    from anyorder.studies.generation import GenerationQuality


_EPILOG = "Example: anyorder evaluate generation --judge gpt2 --corpus books.txt.xz --texts 64 --out docs/results"


def generation(
    options: GenerationOptions,
    model: ModelOptions,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for generation.json, .md and .png.")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Quality and time of few-step samplers against their number of steps, beside any-order and real text."""
    numbers = options.numbers
    names = [choose(name, ("parallel", "pairs", "refine", "gibbs"), "sampler") for name in options.names]
    if out is not None:
        if not out.parent.is_dir():
            raise AnyorderError(f"no folder {out.parent} to write into: create it first")
        out.mkdir(exist_ok=True)
        check_output(out / "generation.json", overwrite=overwrite)
    from anyorder.metrics.schedules import SCHEDULES
    from anyorder.studies.generation import masked_writers, real_texts, study
    from anyorder.studies.judge import load_judge

    wanted = None if options.schedules is None else options.schedules.split(",")
    schedules = [choose(name.strip(), SCHEDULES, "schedule") for name in wanted or SCHEDULES]
    lm = load_model(model)
    if wanted is None and lm.curve is None:
        schedules.remove("optimal")
    critic = load_judge(options.judge, model) if options.judge is not None else None
    writers = list(
        masked_writers(
            lm.name, lm, length=options.length, steps=numbers, samplers=names, schedules=schedules, order=options.order,
            temperature=options.temperature, seed=options.seed,
        )
    )  # fmt: skip
    corpus = options.corpus
    real = real_texts(lm, corpus, options.length, options.texts) if corpus is not None else None
    settings = {"model": lm.name, **asdict(options), "steps": numbers, "samplers": names, "schedules": schedules}
    settings["corpus"] = None if corpus is None else corpus.name
    rows: list[GenerationQuality] = []
    interrupted = False
    with progress() as bar:
        task = bar.add_task("starting", total=len(writers) + (real is not None))
        try:
            for row in study(
                writers,
                texts=options.texts,
                judge=critic,
                real=real,
                progress=lambda what: bar.update(task, description=what),
            ):
                rows.append(row)
                bar.advance(task)
        except KeyboardInterrupt:
            interrupted = True
    result = {"rows": [row.to_dict() for row in rows], "settings": settings}
    if out is not None and rows:
        _write(out, rows, result)
    if as_json:
        print_json(result)
    else:
        from rich.console import Console

        from anyorder.show.generation import generation_table

        Console().print(generation_table(rows))
    if interrupted:
        print(f"anyorder: interrupted, {len(rows)} rows finished", file=sys.stderr)
        raise typer.Exit(130)


def _write(out: Path, rows: list[GenerationQuality], result: dict[str, Any]) -> None:
    from anyorder.show.generation import generation_markdown, plot_generation

    (out / "generation.json").write_text(
        json.dumps(to_json(result), indent=2, allow_nan=False) + "\n", encoding="utf-8"
    )
    (out / "generation.md").write_text(generation_markdown(rows) + "\n", encoding="utf-8")
    plot_generation(rows, out / "generation.png")


def register(app: typer.Typer) -> None:
    """Add the command to the evaluate group."""
    command(app, "generation", epilog=_EPILOG)(generation)
