"""Pictures of joints: heat maps of the top tokens, and the pairwise NLL against token distance (appendix E)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anyorder.show.figure import FONT, new_figure, save_figure
from anyorder.stats import mean_estimate

if TYPE_CHECKING:
    from anyorder.tasks.joint import TextJoint

# One colour per method, the same in every picture.
COLOURS = {"mlm": "#4477aa", "mrf-logit": "#ee6677", "mrf": "#ccbb44", "hcb": "#66ccee", "ag": "#228833"}
_BEST = 3  # pairs of every method that a heat map shows in any case


def heat_map(joints: Mapping[str, TextJoint], path: str | Path, *, title: str, tokens: int = 12) -> None:
    """One panel per method: p(a, b) over about ``tokens`` tokens of each blank, the same in every panel.

    Those of the best pairs of every method, then the most probable of each blank alone.
    """
    chosen = _shown(joints, tokens)
    labels = [[_label(next(iter(joints.values())).token(t)) for t in ids.tolist()] for ids in chosen]
    cells = {name: j.log_prob(chosen[0][:, None], chosen[1]).exp() for name, j in joints.items()}
    most = max(float(p.max()) for p in cells.values())
    columns = min(3, len(cells))
    lines = -(-len(cells) // columns)
    size = 1.5 + 0.33 * max(map(len, labels))
    figure, axes = new_figure(columns, lines, size + 0.8 / columns, size + 0.5 / lines)
    from matplotlib.colors import LogNorm

    # Logarithmic: a joint has a few pairs of some per cent and many of some per thousand, and both tell something.
    colours = LogNorm(vmin=most * 1e-4, vmax=most, clip=True)
    for axis in axes[len(cells) :]:
        axis.set_visible(False)
    for axis, (name, p) in zip(axes, cells.items(), strict=False):
        axis.grid(visible=False)
        image = axis.imshow(p.numpy(), cmap="viridis", norm=colours)
        axis.set_xticks(
            range(len(labels[1])), labels[1], rotation=60, ha="right", rotation_mode="anchor", fontsize=FONT
        )
        axis.set_yticks(range(len(labels[0])), labels[0], fontsize=FONT)
        axis.set_title(f"{name}: {float(p.sum()):.2f} of the mass is shown", fontsize=10)
        for i, j in torch.nonzero(p >= 0.005).tolist():  # the number itself where there is something to read
            value = float(p[i, j])
            ink = "black" if value > 0.1 * most else "white"
            axis.text(j, i, f"{value:.2f}".lstrip("0"), ha="center", va="center", fontsize=7, color=ink)
    figure.supylabel("first blank", fontsize=10)
    figure.supxlabel("second blank", fontsize=10)
    figure.colorbar(image, ax=axes, label="probability", shrink=0.8, format="%g")
    figure.suptitle("\n".join(textwrap.wrap(title, 40 * columns)).replace("$", r"\$"), fontsize=10)
    save_figure(figure, path)


LABELS = {
    "token": "tokens between the two positions (0 = adjacent)",
    "syntactic": "arcs between the two words (0 = one word)",
}


def distance_plot(records: Sequence[Mapping[str, Any]], path: str | Path, *, title: str, kind: str = "token") -> None:
    """Mean pairwise NLL of each method against the distance of the two positions (figure 1), one of ``LABELS``."""
    distances = sorted({int(r["distance"]) for r in records})
    counts = [sum(r["distance"] == d for r in records) for d in distances]
    figure, (axis,) = new_figure(width=7, height=4)
    from matplotlib.ticker import MaxNLocator

    bars = axis.twinx()
    bars.bar(distances, counts, color="0.88", width=0.8, zorder=0)
    bars.set_ylabel("examples (bars)")
    axis.set_zorder(bars.get_zorder() + 1)
    axis.patch.set_visible(False)
    for method in records[0]["scores"]:
        found = []
        for d in distances:
            nll = [r["scores"][method]["p_nll"] / len(r["positions"]) for r in records if r["distance"] == d]
            found.append(mean_estimate(nll))
        means, errors = [one.value for one in found], [one.standard_error for one in found]
        colour = COLOURS.get(method)
        axis.errorbar(distances, means, errors, fmt="o", ms=3, label=method, color=colour)
        # A line through a single example would show its noise as if it were a trend.
        trend = [mean if count > 1 else math.nan for mean, count in zip(means, counts, strict=True)]
        axis.plot(distances, trend, lw=1.2, color=colour)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    bars.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(xlabel=LABELS[kind], ylabel="pairwise NLL, nats per token (± 1 s.e.)")
    figure.legend(fontsize=FONT, loc="outside lower center", ncols=5)
    axis.set_title(title, fontsize=10)
    save_figure(figure, path)


def _shown(joints: Mapping[str, TextJoint], k: int) -> list[torch.Tensor]:
    """The tokens of each blank: of the three best pairs of every method, then the likeliest alone, up to ``k``.

    The likeliest tokens of each blank alone may leave out the likeliest pair.
    """
    best = [pair for j in joints.values() for pair in j.top(_BEST)]
    out = []
    for axis in (0, 1):
        mean = torch.stack([j.marginal(axis).exp() for j in joints.values()]).mean(0)
        of_pairs = dict.fromkeys(pair[axis] for pair in best)
        alone = mean.topk(min(k, len(mean))).indices.tolist()
        ids = torch.tensor(list(dict.fromkeys([*of_pairs, *alone]))[: max(k, len(of_pairs))])
        out.append(ids[mean[ids].argsort(descending=True)])
    return out


def _label(token: str) -> str:
    # matplotlib reads a dollar sign as the beginning of a formula
    return (token if len(token) <= 14 else token[:13] + "…").replace("$", r"\$")
