"""The laboratory's figures."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from anyorder.chains.stutter import Stutter
from anyorder.show.figure import FONT, new_figure, plain_log, save_figure
from anyorder.studies.lab import EfficiencyRow, MixingRow, ParallelRow

_STYLE = {"gibbs": "-", "parallel": "--", "adaptive": ":", "metropolis": "-."}


def plot_mixing(rows: list[MixingRow], path: Path) -> None:
    """Gap, mixing time and distance to the truth against the coupling, one line per kernel and block."""
    figure, (gap, time, distance) = new_figure(columns=3)
    lines: dict[tuple[str, int], list[MixingRow]] = defaultdict(list)
    for row in rows:
        lines[row.kernel, row.block].append(row)
    blocks = sorted({block for _, block in lines})
    for (kernel, block), line in lines.items():
        style = {"linestyle": _STYLE[kernel], "color": f"C{blocks.index(block)}", "marker": ".", "linewidth": 1.3}
        x = [row.coupling for row in line]
        gap.plot(x, [row.mixing.gap or float("nan") for row in line], label=f"{kernel} {block}", **style)
        time.plot(x, [max(row.mixing.mixing_time, 1.0) for row in line], **style)
        distance.plot(x, [float("nan") if row.tv is None else row.tv for row in line], **style)
    plain_log(gap, "y")
    plain_log(time, "y")
    gap.set(title="spectral gap", xlabel="coupling", ylabel="gap")
    time.set(title="steps to mix (TV ≤ 1/4, worst start)", xlabel="coupling", ylabel="steps")
    distance.set(title="TV of the stationary law to the truth", xlabel="coupling", ylabel="total variation")
    figure.legend(fontsize=FONT, frameon=False, loc="outside lower center", ncols=6)
    save_figure(figure, path)


def plot_efficiency(rows: list[EfficiencyRow], path: Path) -> None:
    """Samples needed, as a multiple of maximum likelihood's: theory as bars, experiment as points with their error."""
    figure, (one, all_masks) = new_figure(columns=2)
    known = [row for row in rows if row.exact is not None]
    couplings = sorted({row.coupling for row in known})
    names = [r.masks if len(couplings) == 1 else f"{r.masks} @{r.coupling:g}" for r in known]
    for ax, theory, experiment in (
        (one, [r.exact.ratio for r in known if r.exact], [r.simulated for r in known]),
        (all_masks, [r.exact.averaged_ratio for r in known if r.exact], [r.simulated_averaged for r in known]),
    ):
        ax.bar(range(len(known)), theory, color="C0", alpha=0.5, label="exact")
        seen = [(i, s.ratio, 2 * s.standard_error) for i, s in enumerate(experiment) if s is not None]
        if seen:
            x, y, error = zip(*seen, strict=True)
            ax.errorbar(x, y, yerr=error, fmt="k.", capsize=3, label="fits, ± 2 s.e.")
        ax.axhline(1.0, color="C3", linewidth=1, label="maximum likelihood")
        ax.set_xticks(range(len(known)), names, rotation=30, ha="right", fontsize=FONT)
        ax.set_xlabel("masks")
    one.set(title="one mask per sample", ylabel="variance / Cramér–Rao")
    all_masks.set(title="averaged over all masks", ylabel="variance / Cramér–Rao")
    figure.legend(*one.get_legend_handles_labels(), fontsize=FONT, frameon=False, loc="outside lower center", ncols=3)
    save_figure(figure, path)


def plot_parallel(rows: list[ParallelRow], stutter: list[Stutter], path: Path) -> None:
    """Nats lost by a product block and by few steps, and the stutter they cause."""
    figure, (blocks, steps, repeats) = new_figure(columns=3)
    x = [row.coupling for row in rows]
    for k in rows[0].blocks:
        blocks.plot(x, [row.blocks[k] for row in rows], marker=".", label=f"block {k}")
    for row in rows[:: max(1, len(rows) // 4)]:
        steps.plot(list(row.steps), list(row.steps.values()), marker=".", label=f"coupling {row.coupling:g}")
    blocks.set(title="lost by one parallel block", xlabel="coupling", ylabel="nats")
    steps.set(title="lost by decoding in few steps", xlabel="parallel steps", ylabel="nats", xticks=list(rows[0].steps))
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for s in stutter:
        if s.temperature == 1.0:
            name = (
                f"{s.steps} step{'s' * (s.steps != 1)}" if s.method == "decode" else f"parallel Gibbs, block {s.block}"
            )
            lines[name].append((s.coupling, s.rate))
            if s.method == "decode" and s.steps == 1:
                lines["truth"].append((s.coupling, s.truth))
    for name, line in lines.items():
        style = {"color": "black", "linewidth": 2, "alpha": 0.5} if name == "truth" else {"marker": "."}
        repeats.plot(*zip(*line, strict=True), label=name, **style)
    repeats.set(title="stutter: neighbours that are equal", xlabel="coupling", ylabel="share of neighbours")
    for ax in (blocks, steps, repeats):
        # Below its own panel, where there are no data: the three say different things.
        ax.legend(fontsize=FONT, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    save_figure(figure, path)
