"""Run what the pages show and put its real output below it.

    python docs/tools/regenerate.py                         # every page and notebook, with the bundled model
    python docs/tools/regenerate.py docs/guides/fill.md     # one page
    python docs/tools/regenerate.py --models FOLDER         # also what needs models that are not in the package

A ```text block that directly follows a bash or Python block is its output. Blocks that name a model which is not at
hand keep what they have, and are listed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pages import Block, blocks, commands, write_files

ROOT = Path(__file__).parents[2]
# Files of the repository that commands name, and models that the package does not have: where --models keeps them.
SHARED = ("recipes", "docs/results/vh.txt")
OTHERS = ("bert-base-cased", "sapiens_vh", "AntiBERTy", "rxn-albert", "GSAI-ML/LLaDA-8B-Base")


def paired(text: str) -> Iterator[tuple[Block, Block | None]]:
    """(block, its output) for the bash and Python blocks of a page; None where no output is shown."""
    found = blocks(text)
    for code, following in itertools.zip_longest(found, found[1:]):
        if code.language in ("bash", "python") and not code.title:
            adjacent = following and re.fullmatch(r" *```\n\s*```text\n", text[code.end : following.start])
            yield code, following if adjacent else None


def run(code: Block, names: dict[str, Any]) -> str:
    """What a block prints; Python blocks of one page share their names."""
    if code.language == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code.body, "page", "exec"), names)
        return printed.getvalue()
    from typer.testing import CliRunner

    from anyorder.cli import app

    said = []
    for command in commands(code.body):
        result = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="anyorder", env={"COLUMNS": "88"})
        if result.exit_code:
            raise SystemExit(f"{command}\n{result.output}")
        said.append(result.stdout)
    return "\n".join(said)


def regenerate(page: Path, models: Path | None = None) -> list[str]:
    """Write the page's outputs anew; returns the models that were missing."""
    text = page.read_text(encoding="utf-8")
    new, done, missing = "", 0, []
    names: dict[str, Any] = {}
    for code, output in paired(text):
        absent = [name for name in OTHERS if name in code.body and not (models and (models / name).exists())]
        if absent or not (output or code.language == "python"):
            missing += absent if output else []
            continue
        said = run(code, names)
        if output:
            lines = "".join(f"{output.indent}{line}".rstrip() + "\n" for line in said.strip("\n").splitlines())
            new += text[done : output.start] + lines
            done = output.end
    page.write_text(new + text[done:], encoding="utf-8")
    return missing


def workplace(folder: Path, models: Path | None) -> None:
    """What commands may name: the repository's files, and models."""
    for name in SHARED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / Path(name).name).symlink_to(ROOT / name)
    for name in OTHERS if models else ():
        if (models / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to((models / name).resolve())


def printed(outputs: list[Any]) -> list[Any]:
    """A cell's outputs without warnings, which name paths of this machine; lines printed one by one joined."""
    kept: list[Any] = []
    for output in (one for one in outputs if one.get("name") != "stderr"):
        if kept and output["output_type"] == kept[-1]["output_type"] == "stream":
            kept[-1]["text"] += output["text"]
        else:
            kept.append(output)
    return kept


def execute(notebook: Path, folder: Path) -> None:
    """Run a notebook in ``folder`` and store its outputs."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(notebook, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}).execute(cleanup_kc=True)
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # the time of day would change each time
        if cell.cell_type == "code":
            cell.outputs = printed(cell.outputs)
    nbformat.write(book, notebook)


def main() -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--models", type=Path)
    options = parser.parse_args()
    models = options.models.resolve() if options.models else None
    shown = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.ipynb"))]
    for page in (page.resolve() for page in options.pages or shown):
        text, missing = page.read_text(encoding="utf-8"), []
        with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
            workplace(Path(name), models)
            if page.suffix == ".ipynb":
                code = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
                missing = [model for model in OTHERS if model in str(code) and not Path(name, model).exists()]
                if not missing:
                    execute(page, Path(name))
            elif any(output for _, output in paired(text)):
                write_files(text, Path(name))
                missing = regenerate(page, models)
            else:
                continue
        kept = f": kept what needs {', '.join(sorted(set(missing)))}" if missing else ""
        print(f"{page.relative_to(ROOT)}{kept}", file=sys.stderr)


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "88")
    main()
