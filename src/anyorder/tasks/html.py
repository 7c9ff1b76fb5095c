"""Results as HTML, for notebooks: tables, tokens coloured by surprisal, heat maps.

Colours are tints of red and blue over whatever the page's background is, and the ink is the page's own: readable on
light and dark. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Protocol, TypeVar

_CELL = "padding:2px 10px;border-bottom:1px solid rgba(128,128,128,.35);text-align:{}"
SURPRISING = 10.0  # nats at which a token is as red as it gets: one chance in 22,000


class Row(Protocol):
    """A result that is one row of a table."""

    def cells(self) -> Mapping[str, str]:
        """What stands in each column, unescaped."""


T = TypeVar("T", bound=Row)


class Shown(list[T]):
    """A list of results that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return table([result.cells() for result in self])


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """One row per result; the last column, the text, is flush left."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    align = {name: "left" if name == names[-1] else "right" for name in names}
    head = "".join(_cell("th", escape(name), align[name]) for name in names)
    lines = ["".join(_cell("td", escape(row.get(name, "")), align[name]) for name in names) for row in rows]
    return _whole(head, lines)


def coloured(tokens: Sequence[tuple[str, float]]) -> str:
    """(token, log-probability) in a line, the redder the more surprising; hovering tells how much."""
    spans = []
    for token, log_prob in tokens:
        red = 0.6 * min(1.0, -log_prob / SURPRISING)
        style = f"background:rgba(214,69,65,{red:.2f});border-radius:3px;padding:1px 3px;margin-right:2px"
        spans.append(f'<span style="{style}" title="surprisal {-log_prob:.2f} nats">{escape(token)}</span>')
    return f'<div style="line-height:1.9">{"".join(spans)}</div>'


def heat_map(rows: Sequence[str], columns: Sequence[str], p: Sequence[Sequence[float]]) -> str:
    """Probabilities ``p`` of pairs, the bluer the more probable; per cent where there is something to read."""
    most = max((value for line in p for value in line), default=1.0) or 1.0
    head = "".join(_cell("th", escape(name), "center") for name in ("", *columns))
    lines = []
    for name, line in zip(rows, p, strict=True):
        cells = _cell("th", escape(name), "right")
        for value in line:
            # The square root: a joint has a few pairs of some per cent and many of some per thousand.
            blue = f"background:rgba(46,120,200,{0.65 * (value / most) ** 0.5:.2f})"
            shown = f"{100 * value:.2g}" if value >= 0.001 else ""
            cells += f'<td style="{_CELL.format("center")};{blue}" title="{value:.3g}">{shown}</td>'
        lines.append(cells)
    return _whole(head, lines)


def _cell(tag: str, content: str, align: str) -> str:
    return f'<{tag} style="{_CELL.format(align)}">{content}</{tag}>'


def _whole(head: str, lines: Sequence[str]) -> str:
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
