"""Pictures of joints: heat maps of the top tokens, and the pairwise NLL against token distance (appendix E)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anyorder.show.figure import new_figure, save_figure

if TYPE_CHECKING:
    from anyorder.tasks.joint import TextJoint

# One colour a method, the same in every picture.
COLOURS = {"mlm": "#4477aa", "mrf-logit": "#ee6677", "mrf": "#ccbb44", "hcb": "#66ccee", "ag": "#228833"}


def heat_map(joints: Mapping[str, TextJoint], path: str | Path, *, title: str, tokens: int = 12) -> None:
    """One panel a method: p(a, b) over the ``tokens`` most probable tokens of each blank, the same in every panel."""
    chosen = [_shared_top(joints, axis, tokens) for axis in (0, 1)]
    labels = [[_label(next(iter(joints.values())).token(t)) for t in ids.tolist()] for ids in chosen]
    cells = {name: j.log_prob(chosen[0][:, None], chosen[1]).exp() for name, j in joints.items()}
    most = max(float(p.max()) for p in cells.values())
    columns = min(3, len(cells))
    lines = -(-len(cells) // columns)
    size = 1.5 + 0.3 * max(map(len, labels))
    figure, axes = new_figure(columns, lines, size + 0.8 / columns, size + 0.5 / lines)
    from matplotlib.colors import LogNorm

    # Logarithmic: a joint has a few pairs of some per cent and many of some per thousand, and both tell something.
    colours = LogNorm(vmin=most * 1e-4, vmax=most, clip=True)
    for axis in axes[len(cells) :]:
        axis.set_visible(False)
    for axis, (name, p) in zip(axes, cells.items(), strict=False):
        axis.grid(visible=False)
        image = axis.imshow(p.numpy(), cmap="viridis", norm=colours)
        axis.set_xticks(range(len(labels[1])), labels[1], rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
        axis.set_yticks(range(len(labels[0])), labels[0], fontsize=8)
        axis.set_title(f"{name}: {float(p.sum()):.0%} of the mass is shown", fontsize=9)
        for i, j in torch.nonzero(p >= 0.005).tolist():  # the number itself where there is something to read
            value = float(p[i, j])
            ink = "black" if value > 0.1 * most else "white"
            axis.text(j, i, f"{100 * value:.2g}", ha="center", va="center", fontsize=6.5, color=ink)
    figure.supylabel("first blank", fontsize=9)
    figure.supxlabel("second blank", fontsize=9)
    figure.colorbar(image, ax=axes, label="probability (numbers: per cent)", shrink=0.8)
    figure.suptitle("\n".join(textwrap.wrap(title, 40 * columns)).replace("$", r"\$"), fontsize=10)
    save_figure(figure, path)


def distance_plot(records: Sequence[Mapping[str, Any]], path: str | Path, *, title: str) -> None:
    """Mean pairwise NLL of each method against the number of tokens between the two positions (figure 1, left)."""
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
        means, errors = [], []
        for d in distances:
            nll = torch.tensor(
                [r["scores"][method]["p_nll"] / len(r["positions"]) for r in records if r["distance"] == d]
            )
            means.append(float(nll.mean()))
            errors.append(float(nll.std() / len(nll) ** 0.5) if len(nll) > 1 else 0.0)
        axis.errorbar(distances, means, errors, marker="o", ms=3, lw=1.2, label=method, color=COLOURS.get(method))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    bars.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("tokens between the two positions (0 = adjacent)")
    axis.set_ylabel("pairwise NLL, nats a token")
    axis.legend(fontsize=8)
    axis.set_title(title, fontsize=10)
    save_figure(figure, path)


def _shared_top(joints: Mapping[str, TextJoint], axis: int, k: int) -> torch.Tensor:
    """The tokens with the most marginal mass on average over the methods."""
    mean = torch.stack([j.marginal(axis).exp() for j in joints.values()]).mean(0)
    return mean.topk(min(k, len(mean))).indices


def _label(token: str) -> str:
    # matplotlib reads a dollar sign as the beginning of a formula
    return (token if len(token) <= 14 else token[:13] + "…").replace("$", r"\$")
