"""Every command and every line of Python shown in README and docs runs, as shown, with the bundled model."""

import lzma
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anyorder
from anyorder.cli import app
from anyorder.models.build import build

ROOT = Path(__file__).parent.parent
# docs/lab.md has its own test, beside those of the commands it shows: tests/cli/test_lab.py
PAGES = sorted([ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md") if p.name != "lab.md")])
STORY = "The old man opened the door and walked into the garden.\n\nThe sea was calm.\nThe boat was small.\n\n" * 6
# What makes a long command short; the command itself stays as it is shown.
SHORTER = {
    "evaluate generation": "--texts 2 --length 8 --steps 2,4",
    "train": "--quiet --set optim.steps=1 --set optim.batch=2 --set optim.micro_batch=2 --set model.layers=1 "
    "--set tokenizer.vocab_size=300 --set data.holdout=0.1 --set data.min_tokens=2 --set run.evaluate_blocks=2",
}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands():
    for page in PAGES:
        for block in blocks(page, "bash"):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("anyorder "):
                    yield pytest.param(line, id=f"{page.name}: {line[9:60]}")


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    """A causal model of random weights: what a judge says does not matter here, only that it is asked."""
    tokenizer = anyorder.load().tokenizer
    folder = tmp_path_factory.mktemp("gpt")
    sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate": 32, "max_length": 128}
    build("gpt2", vocab_size=len(tokenizer), pad_id=tokenizer.pad_token_id, **sizes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def workplace(tmp_path, monkeypatch, gpt):
    """A folder with the files the docs' commands name."""
    (tmp_path / "texts.txt").write_text("The cat sat on the mat.\n\nThe sea was calm.\n")
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "docs" / "results").mkdir(parents=True)
    for name in ("corpus/books.txt.xz", "corpus/wiki.txt.xz", "books.txt.xz"):
        (tmp_path / name).write_bytes(lzma.compress(STORY.encode()))
    (tmp_path / "GPT").symlink_to(gpt)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", commands())
def test_commands(command, workplace):
    words = shlex.split(command)[1:]
    words += shlex.split(SHORTER.get(words[0], "") + SHORTER.get(" ".join(words[:2]), ""))
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_python(page, workplace, capsys):
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), {})
    assert capsys.readouterr().out
