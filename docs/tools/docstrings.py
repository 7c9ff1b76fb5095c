"""Docstrings as the site needs them: roles become links, examples code, and options say their help."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from importlib import import_module
from typing import Any

from griffe import Attribute, Class, Docstring, Extension, Object

ROLE = re.compile(r":(?:func|class|mod|meth|data|attr|obj):`~?([\w.]+)`")
EXAMPLE = re.compile(r"^>>> .*\n(?:(?:>>>|\.\.\.).*\n)*", re.MULTILINE)


class Docstrings(Extension):
    """Called by mkdocstrings for everything it reads."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of ``obj``."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class_members(self, *, cls: Class, **kwargs: Any) -> None:
        """A class of options lists them; imported, since a help text may be put together from others."""
        values = [str(one.value) for one in cls.members.values() if isinstance(one, Attribute)]
        if any(re.match(r"(seed_)?option\(", value) for value in values):
            kind = getattr(import_module(cls.module.canonical_path), cls.name)
            lines = [f"    {one.name} ({one.type}, optional): {_said(one)}" for one in fields(kind)]
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


def _said(one: Field[Any]) -> str:
    default = "" if one.default in (MISSING, None) else f" Default: `{one.default}`."
    return one.metadata["help"] + default
