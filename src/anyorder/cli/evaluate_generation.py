"""`anyorder evaluate generation`: text quality and time against the number of steps."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOptions,
    OverwriteOption,
    command,
    load_model,
    print_json,
    progress,
    show,
    write_up,
)
from anyorder.cli.evaluate import evaluate_app
from anyorder.errors import AnyorderError, choose
from anyorder.files.disk import check_output
from anyorder.show.generation import generation_markdown, generation_table, plot_generation
from anyorder.studies.options.generation import GenerationOptions

if TYPE_CHECKING:
    from anyorder.studies.generation import GenerationQuality


@command("anyorder evaluate generation --judge gpt2 --corpus books.txt.xz --texts 64 --out docs/results", evaluate_app)
def generation(
    options: GenerationOptions,
    model: ModelOptions,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for generation.json, .md and .png.")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Quality and time of few-step samplers against their number of steps, beside any-order and real text."""
    numbers = options.numbers
    possible = ("parallel", "pairs", "refine", "gibbs")
    names = [choose(name.strip(), possible, "sampler") for name in options.samplers.split(",")]
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
    finished = False
    with progress() as bar, suppress(KeyboardInterrupt):
        task = bar.add_task("starting", total=len(writers) + (real is not None))
        for row in study(
            writers,
            texts=options.texts,
            judge=critic,
            real=real,
            progress=lambda what: bar.update(task, description=what),
        ):
            rows.append(row)
            bar.advance(task)
        finished = True
    result = {"rows": [row.to_dict() for row in rows], "settings": settings}
    if out is not None and rows:
        write_up(out, "generation", result, generation_markdown(rows))
        plot_generation(rows, out / "generation.png")
    if as_json:
        print_json(result)
    else:
        show(generation_table(rows))
    if not finished:
        print(f"anyorder: interrupted, {len(rows)} rows finished", file=sys.stderr)
        raise typer.Exit(130)
