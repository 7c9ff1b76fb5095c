"""The list of endpoints at /docs, written from the OpenAPI document: no script, nothing from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

_HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    "<title>anyorder: endpoints</title><h1>Endpoints</h1>"
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
    schema = _found(content["application/json"]["schema"], document)
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{escape(_default(one, name in schema.get('required', ())))}"
        f"<td>{escape(one.get('description', ''))}"
        for name, one in schema.get("properties", {}).items()
    )
    return f"{head}<table><tr><th>field<th>default<th>what it says{rows}</table>"


def _found(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """A schema itself, where there is only its name."""
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _default(field: dict[str, Any], required: bool) -> str:
    return "must be given" if required else str(field.get("default", ""))
