"""The picture of a certificate: excess over the floor for every sampler, and parallel decoding against its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyorder.show.figure import FONT, new_figure, plain_log, save_figure
from anyorder.studies.certify import FLOOR, Verdict


def plot(verdicts: list[Verdict], path: Path) -> None:
    """Write the picture to ``path``; the ending says in which format."""
    others = [v for v in verdicts if not v.sampler.startswith("parallel")]
    steps = [v for v in verdicts if v.sampler.startswith("parallel")]
    figure, axes = new_figure(columns=bool(others) + bool(steps), width=7.5, height=5.5)
    from matplotlib.lines import Line2D  # after new_figure, which says what to do where matplotlib is missing

    names = list(dict.fromkeys(v.world for v in verdicts))
    colour = {name: f"C{i}" for i, name in enumerate(names)}
    if others:
        _samplers(axes[0], others, colour)
    if steps:
        _steps(axes[-1], steps, colour)
    worlds = [Line2D([], [], color=c, marker="o", label=name) for name, c in colour.items()]
    title = "dotted: the floor" if steps else None
    figure.legend(handles=worlds, title=title, fontsize=FONT, loc="outside lower center", ncols=5)
    save_figure(figure, path)


def _samplers(axis: Any, verdicts: list[Verdict], colour: dict[str, str]) -> None:
    """One line per sampler: its total variation over the floor, world by world; filled where the floor is claimed."""
    rows = list(dict.fromkeys(v.sampler for v in verdicts))
    for v in verdicts:
        face = colour[v.world] if v.claim == FLOOR else "none"
        axis.errorbar(
            v.tv / v.floor,
            rows.index(v.sampler) + 0.12 * (list(colour).index(v.world) - len(colour) / 2),
            xerr=3 * v.tv_error / v.floor,
            fmt="o",
            color=colour[v.world],
            markerfacecolor=face,
            markersize=5,
        )
    axis.axvline(1, color="0.6", linewidth=1, zorder=0)
    plain_log(axis, "x")
    axis.set(xlabel="total variation / floor of exact draws (bars: 3 standard errors)", ylabel="sampler")
    axis.set_yticks(range(len(rows)), rows)
    axis.invert_yaxis()
    axis.set_title("filled: must sit on the floor")


def _steps(axis: Any, verdicts: list[Verdict], colour: dict[str, str]) -> None:
    """Parallel decoding: total variation falls to the floor as the steps approach the number of blanks."""
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for v in verdicts:
        groups.setdefault((v.world, v.sampler.split(", ")[1]), []).append(v)
    for (world, commit), rows in groups.items():
        style = "-" if commit == "random" else "--"
        axis.plot(range(1, len(rows) + 1), [v.tv for v in rows], style, marker="o", color=colour[world])
        axis.axhline(rows[0].floor, color=colour[world], linewidth=0.8, linestyle=":")
    plain_log(axis, "y")
    axis.set_xticks(range(1, max(map(len, groups.values())) + 1))
    axis.set(xlabel="steps", ylabel="total variation", title="parallel: random (solid), confidence (dashed)")
