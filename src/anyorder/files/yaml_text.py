"""YAML that comes from outside."""

from __future__ import annotations

from typing import Any

import yaml

DEEPEST = 20  # levels of a document; a recipe has three
MOST = 100_000  # values of a document with its aliases written out; a recipe has some hundred


def parse_yaml(text: str) -> Any:
    """``yaml.safe_load``, but whatever is wrong with the text is a ``YAMLError``.

    PyYAML takes seconds over deep brackets, aliases of aliases make a few lines a value that fits no memory, and values
    that are no date or no number raise what the parser of dates and numbers happens to raise.
    """
    try:
        return yaml.load(text, _Bounded)  # a SafeLoader
    except yaml.YAMLError:
        raise
    except Exception as error:  # there is no list of what it raises: ValueError, KeyError, AttributeError, ...
        raise yaml.YAMLError(f"a value cannot be read ({error})") from None


class _Bounded(yaml.SafeLoader):
    """Counts levels and values while it reads, and stops at the limits."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.sizes: dict[int, int] = {}  # values of each finished node, by its id; the document keeps the nodes alive

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.YAMLError(f"nested too deeply: no more than {DEEPEST} levels are read")
        alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self.depth -= 1
        if alias and id(node) not in self.sizes:
            raise yaml.YAMLError("an alias stands for something that contains it: write the value out")
        if not alias:
            self.sizes[id(node)] = 1 + sum(self.sizes[id(one)] for one in _parts(node))
        if self.sizes[id(node)] > MOST:
            raise yaml.YAMLError(f"too large: no more than {MOST:,} values are read, aliases written out")
        return node


def _parts(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
