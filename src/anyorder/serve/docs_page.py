"""The list of endpoints at /docs, written from the OpenAPI document: no script, nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

_HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<title>anyorder: endpoints</title><link rel="icon" href="/icon.svg" type="image/svg+xml">'
    + "".join(f'<link rel="stylesheet" href="/{name}.css">' for name in ("player", "base", "docs"))
    + '<main class="docs"><h1>Endpoints</h1>'
    '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>. The page: <a href="/">/</a>.</p>'
)


def docs_page(document: dict[str, Any]) -> str:
    """Every endpoint with its fields."""
    return _HEAD + "".join(
        _endpoint(path, method, said, document)
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    )


def _endpoint(path: str, method: str, said: dict[str, Any], document: dict[str, Any]) -> str:
    head = f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2><p>{escape(said.get('description', ''))}</p>"
    content = said.get("requestBody", {}).get("content", {})
    if not content:
        return head
    rows = "".join(_rows(content["application/json"]["schema"], document))
    return f"{head}<div><table><tr><th>field<th>default<th>what it says{rows}</table></div>"


def _rows(schema: dict[str, Any], document: dict[str, Any], inside: str = "") -> Iterator[str]:
    """A row per field; an object's own fields come after it, as ``parameters.top_k``."""
    schema = _found(schema, document)
    for name, one in schema.get("properties", {}).items():
        default = _default(one, name in schema.get("required", ()))
        yield (
            f"<tr><td><code>{escape(inside + name)}</code><td>{escape(default)}<td>{escape(one.get('description', ''))}"
        )
        yield from _rows(one, document, f"{inside}{name}.")


def _found(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """A schema itself, where there is only its name."""
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _default(field: dict[str, Any], required: bool) -> str:
    """As JSON has it; of an object its fields say it."""
    if required:
        return "must be given"
    default = field.get("default")
    return "" if default is None or isinstance(default, dict) else json.dumps(default, ensure_ascii=False)
