"""Text and tables for a terminal, where nothing moves the cursor and no number is cut in two; tables for a page."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # marks that reverse the direction of what follows


def printable(text: str, keep: str = "") -> str:
    r"""``text`` with control characters as escapes (``\x1b``, ``\n``), but for those in ``keep``."""

    def shown(character: str) -> str:
        control = unicodedata.category(character) in ("Cc", "Cs") or ord(character) in _BIDI
        return character.encode("unicode_escape").decode() if control and character not in keep else character

    return "".join(map(shown, text))


def table(words: Sequence[str], numbers: Sequence[str], title: str | None = None) -> Table:
    """An empty table: columns of words, which wrap where the terminal is narrow, then of numbers, which never do."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in words:
        made.add_column(name, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown: the names of its columns, and its cells."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *rows))
