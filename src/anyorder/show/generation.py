"""Quality and time of generated texts, as tables and as a plot against the number of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.show.figure import FONT, new_figure, plain_log, save_figure
from anyorder.show.printable import markdown_table
from anyorder.show.printable import table as new_table

if TYPE_CHECKING:
    from rich.table import Table

    from anyorder.studies.generation import GenerationQuality

COLUMNS = ("model", "sampler", "steps", "seconds", "passes", "perplexity", "entropy", "stutter", "distinct_2",
           "repetition_3")  # fmt: skip


def generation_markdown(rows: Sequence[GenerationQuality]) -> str:
    """A Markdown table."""
    return markdown_table(COLUMNS, [[_cell(getattr(row, column)) for column in COLUMNS] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def generation_table(rows: Sequence[GenerationQuality]) -> Table:
    """A table for the terminal, of at most 80 columns, with the interval of the perplexity."""
    table = new_table(("sampler",), ("steps", "sec", "PPL (95 %)", "entropy", "distinct", "stutter"))
    model = ""
    for r in rows:
        if r.model != model:  # its name, above its samplers
            model = r.model
            table.add_row(model)
        quality = (f"{r.entropy:.2f}", f"{r.distinct_2:.3f}", f"{r.stutter:.4f}")
        table.add_row(r.sampler, str(r.steps), f"{r.seconds:.{0 if r.seconds >= 10 else 3}f}", _judged(r), *quality)
    return table


def _judged(r: GenerationQuality) -> str:
    """The perplexity with its interval."""
    if r.perplexity is None or r.low is None or r.high is None:
        return "–"
    digits = 0 if r.high >= 100 else 1
    ends = "one text" if math.isnan(r.low) else f"{r.low:.{digits}f} to {r.high:.{digits}f}"
    return f"{r.perplexity:.{digits}f} ({ends})"


def plot_generation(rows: Sequence[GenerationQuality], path: Path) -> None:
    """Perplexity (where there is a judge), entropy, stutter and time against steps."""
    panels = [
        ("entropy", "entropy of a text, nats"),
        ("stutter", "stutter beyond real text"),
        ("seconds", "seconds per text"),
    ]
    if all(row.perplexity is not None for row in rows):
        panels.insert(0, ("perplexity", "generative perplexity"))
    figure, axes = new_figure(columns=2, rows=2, height=2.8)
    for axis in axes[len(panels) :]:
        axis.remove()
    for axis, (field, label) in zip(axes, panels, strict=False):
        for name in dict.fromkeys(row.sampler for row in rows):
            mine = [row for row in rows if row.sampler == name]
            values = [getattr(row, field) for row in mine]
            if name == "real text":
                if field != "seconds":
                    axis.axhline(values[0], color="0.6", ls=":", label=name)
                continue
            axis.plot([row.steps for row in mine], values, marker="o", ms=4, lw=1.2, label=name)
        axis.set_xscale("log", base=2)
        ticks = sorted({row.steps for row in rows if row.steps})
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        if field in ("perplexity", "seconds"):
            plain_log(axis, "y")
        axis.set(xlabel="steps", ylabel=label)
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=FONT, loc="outside lower center", ncols=5)
    save_figure(figure, path)
