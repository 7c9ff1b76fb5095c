"""`anyorder evaluate curves`: how training runs learned, in one table and one plot."""

from __future__ import annotations

from typing import Annotated

import typer

from anyorder.cli.common import JsonOption, PlotOption, command, print_json, show
from anyorder.cli.evaluate import evaluate_app, named_models
from anyorder.show.curves import curves_table, plot_curves
from anyorder.show.figure import check_plot_path


@command("anyorder evaluate curves bert=runs/bert u-pmlm-a=runs/u-pmlm-a gpt=runs/gpt --plot curves.png", evaluate_app)
def curves(
    runs: Annotated[list[str], typer.Argument(help="name=folder of a training run, finished or not; one or more.")],
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """Held-out loss of training runs against the tokens they read, from their own logs.

    Each run's loss is that of its own objective: over all orders for masked models, left to right for GPT. Losses can
    be compared where the tokenizer and the held-out texts are the same.
    """
    from anyorder.studies.curves import read_curve

    check_plot_path(plot)
    readings = [reading for name, folder in named_models(runs).items() for reading in read_curve(name, folder)]
    if plot is not None:
        plot_curves(readings, plot)
    if json:
        print_json({"rows": [reading.to_dict() for reading in readings]})
    else:
        show(curves_table(readings))
