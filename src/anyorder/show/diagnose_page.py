"""The diagnosis as one HTML page that needs no other file."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anyorder.show.figure import FONT, embedded, new_figure, plain_log
from anyorder.studies.diagnose import Diagnosis, StutterRate

_STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem } img { max-width: 100% }
table { border-collapse: collapse; font-size: .9rem } td, th { padding: .2rem .7rem; text-align: right;
border-bottom: 1px solid rgba(128, 128, 128, .35) } td:first-child, th:first-child { text-align: left }
img { box-sizing: border-box; padding: 8px; border-radius: 4px; background: white }
.note { opacity: .75; font-size: .9rem }
"""

_ALT = {
    "dependence": "Information against distance, and how far a surprise at one token changes another",
    "chains": "Energy, autocorrelation and overlap with the starting text of Gibbs chains by sweep",
    "stutter": "Share of equal neighbours by sampler and temperature, beside real text",
}


def page(found: Diagnosis) -> str:
    """The whole page."""
    parts = [f"<h1>{html.escape(found.model)}: what depends, what mixes, what stutters</h1>", "<ul>"]
    parts += [f"<li>{html.escape(line)}</li>" for line in found.advice]
    parts.append("</ul>")
    if found.pairs:
        parts += ["<h2>Dependence between positions</h2>", _image(_dependence(found), _ALT["dependence"])]
        correlation = found.attention_correlation
        said = "not available from this model" if correlation is None else f"{correlation:.2f}"
        parts.append(
            f"<p class=note>Rank correlation of attention with influence: {said}. Information: nats lost by drawing "
            "the two positions in parallel, the rest of the text observed. Influence: total variation a surprising "
            "token at one causes at the other.</p>"
        )
        rows = list(zip(found.texts, found.safe_blocks, found.safe_spaced, strict=False))
        head = ("text", "random positions", "no two neighbours")
        parts += ["<h2>Positions that may be drawn at once, by text</h2>", _table(head, rows)]
    if found.chains:
        parts += ["<h2>Gibbs chains</h2>", _image(_chains(found), _ALT["chains"])]
        columns = ("text, block", "R-hat (chance)", "effective / sweeps", "half forgotten after", "overlap at the end")
        lines = [
            (
                f"text {c.text + 1}, block {c.block}",
                "–" if math.isnan(c.r_hat) else f"{c.r_hat:.3f} ({c.r_hat_chance:.2f})",
                "–" if math.isnan(c.effective) else f"{c.effective:.1f} / {c.draws}",
                "never" if c.escape is None else f"{c.escape} sweeps",
                f"{c.overlap[-1]:.2f} (from masks {c.baseline:.2f})",
            )
            for c in found.chains
        ]
        parts.append(_table(columns, lines))
        parts.append(
            "<p class=note>Half of the chains begin at the text, half at masks. Energy is -Σ log q(x_t | x_-t) "
            "per token; R-hat, autocorrelation and effective sample size are of the energy over the second half. In "
            "brackets: the R-hat that as few independent draws exceed once in twenty times.</p>"
        )
    if found.stutter:
        parts += ["<h2>Stutter</h2>", _image(_stutter(found), _ALT["stutter"])]
        rates = [(s.sampler, f"{s.temperature:g}", _rate(s)) for s in found.stutter]
        parts.append(_table(("sampler", "temperature", "neighbours equal"), rates))
        parts.append(f"<p class=note>Real text: {found.corpus_stutter:.2%}.</p>")
    settings = ", ".join(f"{name} {value}" for name, value in found.to_dict()["settings"].items())
    parts.append(f"<p class=note>{html.escape(settings)}; {found.skipped} texts too short.</p>")
    start = f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(found.model)}</title>"
    return f"{start}<style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"


def _rate(found: StutterRate) -> str:
    """A share with its standard error, where there is one."""
    return f"{found.rate:.2%}" + ("" if math.isnan(found.standard_error) else f" ± {found.standard_error:.2%}")


def _image(figure: Any, alt: str) -> str:
    return f'<img alt="{html.escape(alt)}" src="{embedded(figure)}">'


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    def line(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"


def _dependence(found: Diagnosis) -> Any:
    with_attention = any(p.attention is not None for p in found.pairs)
    figure, axes = new_figure(columns=3 if with_attention else 2)
    distance = np.array([p.j - p.i for p in found.pairs])
    information = np.array([p.information for p in found.pairs])
    influence = np.array([p.influence for p in found.pairs])
    beside = np.array([p.neighbours for p in found.pairs])
    axes[0].scatter(distance, np.maximum(information, 1e-5), s=8, alpha=0.4)
    edges = np.unique(np.geomspace(1, distance.max() + 1, 8).astype(int))
    middle, mean = [], []
    for low, high in itertools.pairwise(edges):
        inside = (distance >= low) & (distance < high)
        if inside.any():
            middle.append((low + high - 1) / 2)
            mean.append(max(float(information[inside].mean()), 1e-5))
    axes[0].plot(middle, mean, "C3.-", label="mean")
    plain_log(axes[0], "x")
    plain_log(axes[0], "y")
    axes[0].set(xlabel="distance in tokens", ylabel="nats", title="information")
    axes[0].legend(frameon=False, fontsize=FONT)
    bins = np.linspace(0, max(float(influence.max()), 1e-3), 20)
    axes[1].hist([influence[~beside], influence[beside]], bins=bins, label=["random pairs", "neighbours"])
    axes[1].set(xlabel="total variation", ylabel="pairs", title="influence of a surprise")
    axes[1].legend(frameon=False, fontsize=FONT)
    if with_attention:
        known = [p for p in found.pairs if p.attention is not None]
        axes[2].scatter([p.attention for p in known], [p.influence for p in known], s=8, alpha=0.4)
        plain_log(axes[2], "x")
        axes[2].set(xlabel="mean attention", ylabel="influence", title="does attention tell?")
    return figure


def _chains(found: Diagnosis) -> Any:
    known = any(not math.isnan(value) for chain in found.chains for value in chain.autocorrelation)
    figure, (energy, escape, *more) = new_figure(columns=3 if known else 2)  # few sweeps have no autocorrelation
    for number, chain in enumerate(found.chains):
        for i, line in enumerate(chain.energy):
            style = "-" if i < len(chain.energy) // 2 else ":"
            energy.plot(range(1, len(line) + 1), line, style, color=f"C{number}", linewidth=1)
        for correlation in more:
            correlation.plot(chain.autocorrelation, color=f"C{number}")
        escape.plot(chain.overlap, color=f"C{number}", label=f"text {chain.text + 1}, block {chain.block}")
        escape.axhline(chain.baseline, color=f"C{number}", linewidth=0.8, linestyle=":")
    energy.set(title="energy (dotted: from masks)", xlabel="sweep", ylabel="nats per token")
    for correlation in more:
        correlation.set(title="autocorrelation of the energy", xlabel="lag, sweeps", ylabel="correlation")
    escape.set(title="overlap with the starting text", xlabel="sweep", ylabel="share of tokens", ylim=(0, 1.02))
    figure.legend(frameon=False, fontsize=FONT, loc="outside lower center", ncols=4)
    return figure


def _stutter(found: Diagnosis) -> Any:
    figure, (ax,) = new_figure(width=7)
    names = list(dict.fromkeys(s.sampler for s in found.stutter))
    temperatures = sorted({s.temperature for s in found.stutter})
    width = 0.8 / len(temperatures)
    for k, temperature in enumerate(temperatures):
        here = [s for s in found.stutter if s.temperature == temperature]
        x = [names.index(s.sampler) + (k - (len(temperatures) - 1) / 2) * width for s in here]
        error = [2 * s.standard_error for s in here]
        ax.bar(x, [s.rate for s in here], width, yerr=error, capsize=2, label=f"temperature {temperature:g}")
    ax.axhline(found.corpus_stutter, color="black", linewidth=1, label="real text")
    ax.set_xticks(range(len(names)), names, rotation=15, fontsize=FONT)
    ax.set(title="neighbours that are the same token (± 2 s.e.)", xlabel="sampler", ylabel="share of neighbours")
    ax.set_ylim(bottom=0)  # a share, however wide its interval
    figure.legend(frameon=False, fontsize=FONT, loc="outside lower center", ncols=4)
    return figure
