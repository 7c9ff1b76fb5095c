"""Table 1 of Liao et al. 2020, drawn as it happens: step, prediction index, state of the sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anyorder.show.recording import positions

if TYPE_CHECKING:
    from anyorder.tasks.together import Plan
    from anyorder.types import Info

# What stands for a token that is not yet decided; the paper leaves a blank.
_BLANK = "_"


class Tracer:
    """Draws the first text of every batch, step by step.

    On a terminal the sequence is redrawn in place, with the tokens of the last step marked; elsewhere (a file, a pipe)
    each step is a line of its own.

    Use as a context manager around the generation, with :meth:`watch` as its watcher.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._rows: list[tuple[str, str, Text]] = []
        self._order: list[str] = []
        self._batch = -1

    def __enter__(self) -> Tracer:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="visible")
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._finish()

    def watch(self, task: Plan, state: Any, info: Info, start: int) -> None:
        """Take note of one step; the signature of :data:`anyorder.tasks.generate.Watch`."""
        if start != self._batch:
            self._begin(task, start)
        drawn = [p for p in info.positions[0].tolist() if p >= 0]
        if not drawn or (info.accepted is not None and not bool(info.accepted[0])):
            return
        inner = positions(task)
        number = {position: str(i + 1) for i, position in enumerate(inner)}
        index = ",".join(number[p] for p in drawn)
        self._order.append(index)
        self._show(str(len(self._order)), index, _sequence(task, state.tokens[0].tolist(), inner, set(drawn)))

    def _begin(self, task: Plan, start: int) -> None:
        self._finish()
        self._batch, self._rows, self._order = start, [], []
        if self._live is None:
            self._console.print("Step  Prediction index  State of the sequence", soft_wrap=True)
        self._show("0", "n/a", _sequence(task, task.canvas.layout.tokens.tolist(), positions(task), set()))

    def _show(self, step: str, index: str, sequence: Text) -> None:
        if self._live is None:
            self._console.print(Text(f"{step:<4}  {index:<16}  ") + sequence, soft_wrap=True)
            return
        self._rows.append((step, index, sequence))
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column("Step", justify="right")
        table.add_column("Prediction index", max_width=24)
        table.add_column("State of the sequence")
        # A terminal can only redraw what fits on it: the earlier steps of a long text scroll out of the table.
        lines = 1 + max(len(row[2]) for row in self._rows) // max(20, self._console.width - 24)  # of a row
        room = max(1, (self._console.height - 2) // lines)
        for row in self._rows[-room:]:
            table.add_row(*row)
        return table

    def _finish(self) -> None:
        # Chains come back to a position again and again: the list would say nothing.
        if self._order and len(set(self._order)) == len(self._order):
            self._console.print("Generation order: " + "→".join(self._order), soft_wrap=True, highlight=False)
        self._order = []


def _sequence(task: Plan, tokens: list[int], inner: list[int], new: set[int]) -> Text:
    """The text with a blank for each undecided token and the tokens of this step marked."""
    vocabulary = task.vocabulary
    mask = vocabulary.tokenizer.mask_token_id
    line = Text()
    for position in inner:
        token = tokens[position]
        blank = token == mask
        continues = vocabulary.style == "character" or (
            not blank and vocabulary.style != "word" and not bool(vocabulary.starts[token])
        )
        if line and not continues:
            line.append(" ")
        line.append(_BLANK if blank else vocabulary.surface(token), style="bold green" if position in new else "")
    return line
