"""A model's curve and what schedules cost by it: a table of prices, and a plot of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.metrics.schedules import SCHEDULES
from anyorder.show.figure import FONT, new_figure, save_figure
from anyorder.show.printable import table as new_table
from anyorder.stats import Z95

if TYPE_CHECKING:
    from rich.table import Table

    from anyorder.metrics.curve import Curve
    from anyorder.studies.schedule import Price


def price_table(rows: Sequence[Price], tokens: int) -> Table:
    """Nats lost per text: a row per number of steps, a column per schedule."""
    title = f"Nats lost per text of {tokens} tokens, drawn at random places, against one token per step"
    shown = new_table((), ("steps", *SCHEDULES), title=title)
    for steps in dict.fromkeys(row.steps for row in rows):
        mine = {row.schedule: row for row in rows if row.steps == steps}
        shown.add_row(str(steps), *(f"{mine[name].price:.2f} ± {mine[name].standard_error:.2f}" for name in SCHEDULES))
    return shown


def curve_table(curve: Curve) -> Table:
    """The curve at its points."""
    shown = new_table((), ("visible", "nats"), title="Loss of a hidden token")
    for share, loss, error in zip(curve.visible, curve.loss, curve.standard_error, strict=True):
        shown.add_row(f"{share:.1%}", f"{loss:.3f} ± {error:.3f}")
    return shown


def plot_schedule(curve: Curve, rows: Sequence[Price], path: Path) -> None:
    """The curve with its 95 % intervals, and the price of each schedule against the number of steps."""
    figure, (left, right) = new_figure(columns=2)
    bars = [Z95 * error for error in curve.standard_error]
    left.errorbar([100 * share for share in curve.visible], curve.loss, yerr=bars, marker="o", ms=3, lw=1.2, capsize=2)
    left.set(xlabel="visible tokens, %", ylabel="loss of a hidden token, nats", ylim=(0, None))
    for name in reversed(SCHEDULES):  # the optimum last and dashed: where the curve is straight it lies on linear's
        mine = [row for row in rows if row.schedule == name]
        style = {"ls": "--", "color": "black"} if name == "optimal" else {}
        right.plot(
            [row.steps for row in mine], [row.price for row in mine], marker="o", ms=4, lw=1.2, label=name, **style
        )
    right.set_xscale("log", base=2)
    steps = sorted({row.steps for row in rows})
    right.set(xlabel="steps", ylabel=f"nats lost per text of {curve.tokens} tokens", ylim=(0, None), xticks=steps)
    right.set_xticklabels(steps)
    right.legend(fontsize=FONT, frameon=False)
    save_figure(figure, path)
