"""Tables 5 to 7 for the terminal and as Markdown: one row per model, one column per task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyorder.show.printable import markdown_table
from anyorder.show.printable import table as new_table

if TYPE_CHECKING:
    from rich.table import Table

    from anyorder.studies.understanding.table import Row

_SHORT = {"matthews": "MCC", "f1": "F1", "accuracy": "acc", "pearson": "r", "spearman": "ρ", "exact": "EM", "glue": ""}


def _grid(rows: Sequence[Row], spread: bool) -> tuple[list[str], list[list[str]]]:
    """Column titles and the cells of every model."""
    columns: dict[str, dict[str, None]] = {}  # task -> its metrics, in their order
    for row in rows:
        columns.setdefault(row.task, {})[row.metric] = None
    # the average is the last column, after SQuAD 2.0 too
    names = sorted(columns, key=lambda task: task == "average")
    found = {(row.model, row.task, row.metric): row for row in rows}
    lines = []
    for model in dict.fromkeys(row.model for row in rows):
        line = [model]
        for task in names:
            cells = [found.get((model, task, metric)) for metric in columns[task]]
            line.append("/".join("–" if one is None else _number(one, spread) for one in cells))
        lines.append(line)
    titles = [f"{task} {'/'.join(_SHORT[metric] for metric in columns[task])}".strip() for task in names]
    return titles, lines


def _number(row: Row, spread: bool) -> str:
    return f"{row.value:.1f} ± {row.spread:.1f}" if spread and row.spread is not None else f"{row.value:.1f}"


def understanding_table(rows: Sequence[Row]) -> Table:
    """The paper's Table 5 and 6 side by side, for a terminal."""
    titles, lines = _grid(rows, spread=False)
    shown = new_table(("model",), [title.replace(" ", "\n") for title in titles])
    for line in lines:
        shown.add_row(*line)
    return shown


def difference_table(rows: Sequence[Row]) -> Table | None:
    """Each model minus the one compared with, and the 95 % interval; None if there is no other model."""
    against = [row for row in rows if row.difference is not None]
    if not against:
        return None
    shown = new_table(("model", "task", "metric"), ("value", "±", "difference", "95 %"))
    for row in against:
        spread = "" if row.spread is None else f"{row.spread:.1f}"
        value = (f"{row.value:.1f}", spread, f"{row.difference:+.1f}", _ends(row))
        shown.add_row(row.model, row.task, _SHORT[row.metric], *value)
    return shown


def understanding_markdown(rows: Sequence[Row]) -> str:
    """Both tables; ± is the standard deviation over seeds, brackets are 95 % intervals."""
    titles, lines = _grid(rows, spread=True)
    values = markdown_table(("model", *titles), lines)
    compared = [row for row in rows if row.difference is not None]
    if not compared:
        return values
    others = {row.model for row in compared}
    against = next(row.model for row in rows if row.seeds and row.model not in others)
    differences = [
        (row.model, row.task, _SHORT[row.metric], f"{row.difference:+.1f} ({_ends(row)})") for row in compared
    ]
    said = f"Difference to {against} on the same examples, with its 95 % interval:"
    return f"{values}\n\n{said}\n\n{markdown_table(('model', 'task', 'metric', 'difference'), differences)}"


def _ends(row: Row) -> str:
    return f"{row.difference_low:+.1f} to {row.difference_high:+.1f}"
