"""`anyorder evaluate schedule`: the curve of a model, and what parallel decoding costs by it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOptions,
    OverwriteOption,
    PlotOption,
    command,
    load_model,
    print_json,
    progress,
    show,
)
from anyorder.cli.evaluate import evaluate_app
from anyorder.files.disk import check_output
from anyorder.show.figure import check_plot_path
from anyorder.studies.options.generation import ScheduleOptions


@command(
    "anyorder evaluate schedule --model runs/mini/final --data texts.txt --out runs/mini/final/curve.json", evaluate_app
)
def schedule(
    options: ScheduleOptions,
    model: ModelOptions,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the curve here; as curve.json beside a model it is used.")
    ] = None,
    overwrite: OverwriteOption = False,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """The loss of a masked token against the share that is visible; the price in nats of decoding in few steps."""
    numbers = options.numbers
    check_output(out, overwrite=overwrite)
    check_plot_path(plot)
    lm = load_model(model)
    from anyorder.show.schedule import curve_table, plot_schedule, price_table
    from anyorder.studies.schedule import measure_curve, prices, read_texts

    texts = [text for path in options.data for text in read_texts(lm, path, options.share, options.texts)]
    with progress(json) as bar:
        task = bar.add_task("texts", total=options.texts)
        measured = measure_curve(
            lm, texts, length=options.length, count=options.texts, seed=options.seed,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip
    curve = measured.curve
    rows = list(prices(measured, numbers))
    if out is not None:
        curve.write(out)
    if plot is not None:
        plot_schedule(curve, rows, plot)
    if json:
        settings = {"model": lm.name, **asdict(options), "steps": numbers}
        print_json({"rows": [row.to_dict() for row in rows], "curve": curve.to_dict(), "settings": settings})
    else:
        show(curve_table(curve), "", price_table(rows, curve.tokens))
