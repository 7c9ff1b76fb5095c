"""Docstrings as the site needs them: roles as links, examples as code, fields of options and recipes explained."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import MISSING, Field, fields
from importlib import import_module
from typing import Any

from griffe import Attribute, Class, Docstring, Extension, Object

ROLE = re.compile(r":(?:func|class|mod|meth|data|attr|obj):`~?([\w.]+)`")
EXAMPLE = re.compile(r"^>>> .*\n(?:(?:>>>|\.\.\.).*\n)*", re.MULTILINE)
RECIPES = "anyorder.training.recipe"  # explains its fields in comments


class Docstrings(Extension):
    """Called by mkdocstrings for everything it reads."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of ``obj``."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class_members(self, *, cls: Class, **kwargs: Any) -> None:
        """A class of options lists them; imported, since a help text may be put together from others."""
        values = [str(one.value) for one in cls.members.values() if isinstance(one, Attribute)]
        lines = []
        if any(re.match(r"(seed_)?option\(", value) for value in values):
            kind = getattr(import_module(cls.module.canonical_path), cls.name)
            lines = [f"    {one.name} ({one.type}, optional): {_said(one)}" for one in fields(kind)]
        elif cls.module.canonical_path == RECIPES:
            lines = commented(cls)
        if lines:
            about = cls.docstring.value if cls.docstring else ""
            cls.docstring = Docstring("\n".join([about, "", "Args:", *lines]), parent=cls)


def as_markdown(text: str) -> str:
    """``text`` with Sphinx roles as links, where their target has a page, and ``>>>`` lines as code."""

    def link(role: re.Match[str]) -> str:
        name = role.group(1)
        return f'<autoref identifier="{name}" optional><code>{name.rpartition(".")[2]}</code></autoref>'

    def code(example: re.Match[str]) -> str:
        return f"\n```python\n{re.sub(r'^(>>>|[.]{3}) ?', '', example.group(), flags=re.MULTILINE)}```\n"

    return EXAMPLE.sub(code, ROLE.sub(link, text).replace("``", "`") + "\n").rstrip("\n")


def commented(cls: Class) -> list[str]:
    """The fields of a dataclass with the comments above and beside them, as lines of a docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(cls.source).readline)
    comments = [(one.start[0], one.string.strip("# ")) for one in tokens if one.type == tokenize.COMMENT]
    lines, before, first = [], 0, cls.lineno or 1
    for one in cls.members.values():
        if isinstance(one, Attribute) and one.annotation and one.endlineno and "property" not in one.labels:
            last = one.endlineno - first + 1
            said = " ".join(text for line, text in comments if before < line <= last)
            inner = str(one.value).startswith("field(")  # a group of settings
            end = f"See `{one.annotation}`." if inner else f"Default: `{one.value}`."
            lines.append(f"    {one.name} ({one.annotation}, optional): {said}{'. ' if said else ''}{end}")
            before = last
    return lines


def _said(one: Field[Any]) -> str:
    default = "" if one.default in (MISSING, None) else f" Default: `{one.default}`."
    return one.metadata["help"] + default
