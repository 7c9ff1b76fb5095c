"""The study of translation as a table and as a plot."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyorder.show.figure import FONT, new_figure, save_figure
from anyorder.show.printable import markdown_table
from anyorder.studies.translation import BASELINE, TranslationQuality

HEADINGS = ("way", "steps", "lengths", "BLEU", "chrF", "ahead", "stutter %", "ms")


def cells(row: TranslationQuality) -> tuple[str, ...]:
    """A row of the table."""
    steps = "all" if row.steps is None else str(row.steps)  # one per token
    ahead = "" if row.way == BASELINE else f"{row.ahead:.1f}"
    quality = (f"{row.bleu:.1f}", f"{row.chrf.value:.1f}", ahead, f"{100 * row.stutter:.2f}")
    return (row.way, steps, str(row.lengths), *quality, f"{1000 * row.seconds:.0f}")


def translation_table(rows: Sequence[TranslationQuality]) -> Any:
    """For a terminal."""
    from rich.table import Table

    table = Table(*HEADINGS, box=None, pad_edge=False, collapse_padding=True)
    for column in table.columns:
        column.no_wrap = True
    for row in rows:  # the interval below its value: side by side they would not fit 80 columns
        table.add_row(*(cell.replace(" (", "\n").removesuffix(")") for cell in cells(row)))
    return table


def translation_markdown(rows: Sequence[TranslationQuality]) -> str:
    """For a page."""
    return markdown_table(HEADINGS, map(cells, rows))


def plot_translation(rows: Sequence[TranslationQuality], path: Path) -> None:
    """BLEU and stutter against steps: a marker per way, a colour per number of lengths; left to right is level."""
    figure, axes = new_figure(columns=2, width=4.0)
    fields = (("BLEU", lambda r: r.bleu.value), ("% stutter beyond references", lambda r: 100 * r.stutter))
    colours = {lengths: f"C{n}" for n, lengths in enumerate(dict.fromkeys(row.lengths for row in rows))}
    markers = dict(zip(dict.fromkeys(row.way for row in rows), itertools.cycle("_os^vD<>PX*"), strict=False))
    steps = sorted({row.steps for row in rows if row.steps is not None})
    for axis, (title, value) in zip(axes, fields, strict=True):
        for way, lengths in dict.fromkeys((row.way, row.lengths) for row in rows):
            mine = [row for row in rows if (row.way, row.lengths) == (way, lengths)]
            label = f"{way}, {lengths} length{'s' * (lengths > 1)}"
            style: dict[str, Any] = {"label": label, "color": colours[lengths], "lw": 1.2}
            if way == BASELINE:
                axis.axhline(value(mine[0]), ls=":", **style)
                continue
            mine = [row for row in mine if row.steps is not None]
            axis.plot([row.steps for row in mine], [value(row) for row in mine], marker=markers[way], ms=4, **style)
        axis.set_xscale("log", base=2)
        axis.set_xticks(steps, [str(step) for step in steps])
        axis.set(xlabel="steps", ylabel=title)
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=FONT, loc="outside lower center", ncols=3)
    save_figure(figure, path)
