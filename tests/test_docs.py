"""Every command and every line of Python shown in README and docs runs, as shown, with the bundled model."""

import lzma
import re
import shlex
from pathlib import Path

import pytest
from transformers import BertTokenizer
from typer.testing import CliRunner

import anyorder
from anyorder.cli import app
from anyorder.models.build import build
from tiny import SPECIAL, tiny_model, tiny_translator

ROOT = Path(__file__).parent.parent
# docs/lab.md has its own test, beside those of the commands it shows: tests/cli/test_lab.py
PAGES = sorted([ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md") if p.name != "lab.md")])
STORY = "The old man opened the door and walked into the garden.\n\nThe sea was calm.\nThe boat was small.\n\n" * 6
FILES = ("corpus/books.txt.xz", "corpus/wiki.txt.xz", "books.txt.xz", "wiki.train.raw.xz", "wiki.test.raw.xz",
         "sentences.train.txt.xz", "sentences.test.txt.xz")  # fmt: skip
# What makes a long command short; the command itself stays as it is shown.
SHORTER = {
    "evaluate generation": "--texts 2 --length 8 --steps 2,4",
    "evaluate latency": "--texts 2 --length 8 --steps 2",
    "evaluate translation": "--steps 2 --lengths 1 --limit 1 --resamples 2",
    "evaluate pairwise": "--examples 2 --each 2 --model sapiens_vh",
    "evaluate perplexity": "--finetune-steps 1 --limit 2 --length 12 --samples 2",
    "train": "--quiet --set optim.steps=1 --set optim.batch=2 --set optim.micro_batch=2 --set model.layers=1 "
    "--set tokenizer.vocab_size=300 --set data.holdout=0.1 --set data.min_tokens=2 --set run.evaluate_blocks=2",
}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page):
    lines = "".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("anyorder ")]


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    """A causal model of random weights: what a judge says does not matter here, only that it is asked."""
    tokenizer = anyorder.load().tokenizer
    folder = tmp_path_factory.mktemp("gpt")
    sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate": 32, "max_length": 128}
    build("gpt2", vocab_size=len(tokenizer), pad_id=tokenizer.pad_token_id, **sizes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def protein(tmp_path_factory):
    """A masked model of residues, random too; it can spell many English words as well."""
    folder = tmp_path_factory.mktemp("protein")
    letters = "acdefghiklmnpqrstvwy"
    vocab = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]
    tiny_model("bert", vocab_size=len(vocab), max_position_embeddings=128).save_pretrained(folder)
    ids = {token: i for i, token in enumerate(vocab)}
    BertTokenizer(vocab=ids, do_lower_case=True, model_max_length=128).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A model as if trained on pairs, random too."""
    return tiny_translator(tmp_path_factory.mktemp("translator"))


@pytest.fixture
def workplace(tmp_path, monkeypatch, gpt, protein, translator):
    """A folder with the files the docs' commands name."""
    (tmp_path / "texts.txt").write_text("The cat sat on the mat.\n\nThe sea was calm.\n")
    (tmp_path / "blanks.txt").write_text("The ___ sat on the mat.\n\nThe ___ was ___.\n")
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "docs" / "results").mkdir(parents=True)
    for name in FILES:
        (tmp_path / name).write_bytes(lzma.compress(STORY.encode()))
    proteins = (ROOT / "docs" / "results" / "vh.txt").read_text().splitlines()
    (tmp_path / "vh.txt").write_text("".join(f"{line[:12]}\n" for line in proteins))
    (tmp_path / "pairs").mkdir()
    pairs = "Der alte Mann.\tThe old man.\nDas Meer war ruhig.\tThe sea was calm.\n"
    (tmp_path / "test.tsv").write_text(pairs)
    (tmp_path / "pairs" / "train.tsv.xz").write_bytes(lzma.compress((8 * pairs).encode()))
    (tmp_path / "TRANSLATOR").symlink_to(translator)
    (tmp_path / "GPT").symlink_to(gpt)
    (tmp_path / "sapiens_vh").symlink_to(protein)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: p.name)
def test_commands(page, workplace):
    """A page's commands in their order: one may use what those before it made."""
    for command in commands(page):
        words = shlex.split(command)[1:]
        words += shlex.split(SHORTER.get(words[0], "") + SHORTER.get(" ".join(words[:2]), ""))
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception!r}"


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_python(page, workplace, capsys):
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), {})
    assert capsys.readouterr().out
