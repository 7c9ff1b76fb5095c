"""Quality and time of generated texts against the number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anyorder.show.figure import new_figure, save_figure
from anyorder.studies.generation import Quality


def plot_generation(rows: Sequence[Quality], path: Path) -> None:
    """Perplexity (or entropy, without a judge), entropy and stutter against steps, and time against steps."""
    panels = [
        ("entropy", "entropy of a text, nats"),
        ("stutter", "stutter beyond real text"),
        ("seconds", "seconds a text"),
    ]
    if all(row.perplexity is not None for row in rows):
        panels.insert(0, ("perplexity", "generative perplexity"))
    figure, axes = new_figure(columns=len(panels), width=3.4)
    for axis, (field, label) in zip(axes, panels, strict=True):
        for name in dict.fromkeys(row.sampler for row in rows):
            mine = [row for row in rows if row.sampler == name]
            values = [getattr(row, field) for row in mine]
            if name == "real text":
                if field != "seconds":
                    axis.axhline(values[0], color="0.6", ls=":", label=name)
                continue
            axis.plot([row.steps for row in mine], values, marker="o", ms=4, lw=1.2, label=name)
        axis.set_xscale("log", base=2)
        if field in ("perplexity", "seconds"):
            axis.set_yscale("log")
        axis.set_xlabel("steps")
        axis.set_ylabel(label)
    axes[0].legend(fontsize=7)
    save_figure(figure, path)
