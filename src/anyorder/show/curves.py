"""Learning curves: a table of where each run stands, and one plot of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.show.figure import FONT, new_figure, plain_log, save_figure
from anyorder.show.printable import table as new_table
from anyorder.stats import Z95

if TYPE_CHECKING:
    from rich.table import Table

    from anyorder.studies.curves import Reading


def curves_table(readings: Sequence[Reading]) -> Table:
    """The last reading of each run."""
    shown = new_table(("run",), ("step", "tokens", "nats per token"), title="Held-out loss, at the last validation")
    for last in {reading.run: reading for reading in readings}.values():
        tokens = f"{last.tokens / 1e6:.2f}M"
        error = "" if math.isnan(last.standard_error) else f" ± {last.standard_error:.3f}"  # none of a single text
        shown.add_row(last.run, f"{last.step:,}", tokens, f"{last.loss:.3f}{error}")
    return shown


def plot_curves(readings: Sequence[Reading], path: Path) -> None:
    """Loss against tokens, on a logarithmic axis: a power law is a straight line. Bands: 95 % over held-out texts."""
    figure, (axis,) = new_figure(width=6.4, height=4.0)
    for name in dict.fromkeys(reading.run for reading in readings):
        mine = [reading for reading in readings if reading.run == name]
        tokens, losses = [reading.tokens / 1e6 for reading in mine], [reading.loss for reading in mine]
        (line,) = axis.plot(tokens, losses, marker="o", ms=3, lw=1.2, label=name)
        low, high = ([reading.loss + side * Z95 * reading.standard_error for reading in mine] for side in (-1, 1))
        axis.fill_between(tokens, low, high, color=line.get_color(), alpha=0.12, lw=0)
    axis.set(xlabel="tokens read, millions", ylabel="held-out loss, nats per token")
    plain_log(axis, "x")
    axis.legend(fontsize=FONT, frameon=False)
    save_figure(figure, path)
