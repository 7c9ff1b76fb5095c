"""What stands in a page: its blocks of code, the files it shows, the commands it gives. The tests read pages so too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

# ```language title="name" ... ```, possibly indented below a tab or a list.
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)(?P<rest>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)


class Block(NamedTuple):
    """A block of code."""

    language: str
    title: str | None  # a block with a title is a file of that name
    body: str  # without its indentation
    indent: str
    start: int  # where the body begins and ends in the page
    end: int


def blocks(text: str) -> list[Block]:
    """The blocks of a page, in their order."""
    found = []
    for fence in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', fence["rest"])
        body = re.sub(rf"^{fence['indent']}", "", fence["body"], flags=re.M)
        found.append(
            Block(fence["language"], title and title[1], body, fence["indent"], fence.start("body"), fence.end("body"))
        )
    return found


def write_files(text: str, folder: Path) -> None:
    """Write the files a page shows into ``folder``."""
    for block in blocks(text):
        if block.title:
            (folder / block.title).write_text(block.body, encoding="utf-8")


def commands(body: str) -> list[str]:
    """The lines of a bash block that call anyorder; a backslash continues a line."""
    return [line for line in body.replace("\\\n", " ").splitlines() if line.startswith("anyorder ")]
