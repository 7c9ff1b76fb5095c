"""What MkDocs calls when it builds the site: notebooks become pages, and only pages that are there are listed."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A page for every docs/notebooks/*.ipynb with its stored outputs, beside the file itself, for download."""
    for notebook in [one for one in files if one.src_uri.endswith(".ipynb")]:
        page = notebook.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, page, content=as_markdown(Path(str(notebook.abs_src_path)))))
    config.nav = _present(config.nav, {file.src_uri for file in files})
    return files


def _present(nav: Any, there: set[str]) -> Any:
    """The navigation without pages that have not landed. A misspelt name is found all the same: its page is omitted."""
    match nav:
        case str():
            return nav if nav in there else None
        case dict():
            return {title: kept for title, one in nav.items() if (kept := _present(one, there))} or None
        case _:
            return [kept for one in nav if (kept := _present(one, there))]


def as_markdown(path: Path) -> str:
    """The cells and their outputs, in order; the link to the file below the title."""
    title, *cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = ["".join(title["source"]), f"[Download this notebook]({path.name})"]
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """One output: a picture before a table before text, as a notebook chooses."""
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join(data["image/png"]).strip()
        return f'<img alt="{escape("".join(data.get("text/plain", "")))}" src="data:image/png;base64,{picture}">'
    if "text/html" in data:  # a blank line would end the block of HTML
        table = "".join(line for line in "".join(data["text/html"]).splitlines(keepends=True) if line.strip())
        return f'<div class="output">\n{table}\n</div>'
    return f"```text\n{''.join(output.get('text') or data['text/plain']).rstrip()}\n```"
