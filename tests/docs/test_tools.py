"""What keeps the pages' outputs, figures and notebooks true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.main import get_command

import figures
import pages
import regenerate
from anyorder.cli import app
from tiny import SPECIAL, tiny_model

ROOT = Path(__file__).parents[2]
PAGE = """# Page

```text title="two.txt"
The cat sat.
The dog ran.
```

```bash
anyorder score two.txt --json
```

```text
stale
```

```text
no output of anything
```

```python
kept = open("two.txt").read().count("The")
```

1. In a list:

    ```python
    print(kept)
    ```

    ```text
    stale
    ```

```python
import anyorder
print(anyorder.load("bert-base-cased"))
```

```text
what a model said that is not at hand
```
"""


def test_outputs_are_those_of_the_code_above_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    pages.write_files(PAGE, tmp_path)
    assert regenerate.regenerate(tmp_path / "page.md") == ["bert-base-cased"]
    text = (tmp_path / "page.md").read_text()
    score, other, listed, kept = (b.body for b in pages.blocks(text) if b.language == "text" and not b.title)
    assert [json.loads(line)["text"] for line in score.splitlines()] == ["The cat sat.", "The dog ran."]
    assert (other, listed) == ("no output of anything\n", "2\n")
    assert kept == "what a model said that is not at hand\n"
    assert text.replace(score, "stale\n").replace("    2\n", "    stale\n") == PAGE  # nothing else was touched


def test_a_command_that_fails_stops_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\nanyorder score --method nonsense x\n```\n\n```text\nstale\n```\n")
    with pytest.raises(SystemExit, match="nonsense"):
        regenerate.regenerate(page)


def test_every_command_is_in_the_reference() -> None:
    def leaves(command: Any, name: str) -> Iterator[str]:
        below = getattr(command, "commands", None)
        yield from [name] if below is None else [one for key in below for one in leaves(below[key], f"{name} {key}")]

    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    shown = [line.removesuffix(" --help") for block in pages.blocks(text) for line in pages.commands(block.body)]
    assert sorted(shown) == sorted(leaves(get_command(app), "anyorder"))


def test_figures_are_drawn(tmp_path: Path) -> None:
    for name, draw in figures.FIGURES.items():
        draw(tmp_path / name)
        with Image.open(tmp_path / name) as drawn, Image.open(figures.FOLDER / name) as kept:
            assert drawn.size == kept.size
            assert len(drawn.convert("RGB").getcolors(1 << 20)) > 50  # something is on it


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell, with IPython's own rules; in this process, since a kernel would load everything anew."""
    shell_module = pytest.importorskip("IPython.core.interactiveshell", reason="the extra docs is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    vocab = [*SPECIAL, *"ACDEFGHIKLMNPQRSTVWY"]  # in place of AntiBERTy: a random model with files as it has them
    tiny_model("bert", vocab_size=len(vocab), max_position_embeddings=128).save_pretrained("AntiBERTy")
    Path("AntiBERTy/vocab.txt").write_text("".join(f"{token}\n" for token in vocab))
    shell = shell_module.InteractiveShell()
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        shell.run_cell("".join(cell["source"])).raise_error()
    assert all(cell["execution_count"] for cell in cells), "stored without outputs: run docs/tools/regenerate.py"
