"""Every command and every line of Python shown in README and docs runs, as shown, with the bundled model."""

import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import BertTokenizer
from typer.testing import CliRunner

import anyorder
import pages
from anyorder.cli import app
from anyorder.models.build import build
from remote_code import remote_checkpoint
from tiny import SPECIAL, tiny_model, tiny_translator
from toy_tasks import glue_folder, squad_folder, toy_checkpoint

ROOT = Path(__file__).parent.parent
SERVING = ROOT / "docs" / "serving.md"  # its test starts the server that it asks
# docs/lab.md has its own test, beside those of the commands it shows: tests/cli/test_lab.py
APART = (SERVING, ROOT / "docs" / "lab.md")
PAGES = sorted([ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md") if p not in APART)])
STORY = "The old man opened the door and walked into the garden.\n\nThe sea was calm.\nThe boat was small.\n\n" * 6
FILES = ("corpus/books.txt.xz", "corpus/wiki.txt.xz", "books.txt.xz", "wiki.train.raw.xz", "wiki.test.raw.xz",
         "wikitext-103.test.txt.xz", "sentences.train.txt.xz", "sentences.test.txt.xz")  # fmt: skip
# What makes a long command short; the command itself stays as it is shown.
SHORTER = {
    "evaluate generation": "--texts 2 --length 8 --steps 2,4",
    "evaluate latency": "--texts 2 --length 8 --steps 2",
    "evaluate translation": "--steps 2 --lengths 1 --limit 1 --resamples 2",
    "evaluate pairwise": "--examples 1 --each 1 --model sapiens_vh",
    "evaluate perplexity": "--limit 2 --length 12 --samples 2",
    "evaluate understanding": "--epochs 1 --train-limit 4 --test-limit 6",
    "finetune": "--epochs 1 --train-limit 4 --test-limit 6",
    "train": "--quiet --set optim.steps=1 --set optim.batch=2 --set optim.micro_batch=2 --set model.layers=1 "
    "--set tokenizer.vocab_size=300 --set data.holdout=0.1 --set data.min_tokens=2 --set run.evaluate_blocks=2",
}


def blocks(page, language):
    return [b.body for b in pages.blocks(page.read_text(encoding="utf-8")) if b.language == language and not b.title]


def commands(page):
    return pages.commands("".join(blocks(page, "bash")))


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    """A causal model and a BERT of random weights: what they say does not matter here, only that they are asked."""
    tokenizer = anyorder.load().tokenizer
    folder = tmp_path_factory.mktemp("english")
    sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate": 32, "max_length": 128}
    for name, kind in {"GPT": "gpt2", "bert-base-cased": "bert"}.items():
        model = build(kind, vocab_size=len(tokenizer), pad_id=tokenizer.pad_token_id, **sizes)
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """Models of residues and of atoms as they are published, with vocab.txt alone; LLaDA's kind with its own code."""
    folder = tmp_path_factory.mktemp("letters")
    atoms = [*"()=#-+.:/@123", ">>", *"BCNOSPFIc", "Cl", "Br", "[Te]"]
    for name, family, vocab in (("AntiBERTy", "bert", "ACDEFGHIKLMNPQRSTVWY"), ("rxn-albert", "albert", atoms)):
        entries = [*SPECIAL, *vocab]
        tiny_model(family, vocab_size=len(entries), max_position_embeddings=128).save_pretrained(folder / name)
        (folder / name / "vocab.txt").write_text("".join(f"{entry}\n" for entry in entries))
    remote_checkpoint(folder / "llada")
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
def workplace(tmp_path, monkeypatch, english, letters, protein, translator):
    """A folder with the files the docs' commands name, and small random models under the names of the real ones."""
    (tmp_path / "texts.txt").write_text("The cat sat on the mat.\n\nThe sea was calm.\n")
    (tmp_path / "blanks.txt").write_text("The ___ sat on the mat.\n\nThe ___ was ___.\n")
    (tmp_path / "held-out.txt").write_text(STORY)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "docs" / "results").mkdir(parents=True)
    for log in (ROOT / "docs" / "results").glob("*-run.jsonl"):
        (tmp_path / "docs" / "results" / log.name).symlink_to(log)
    for name in FILES:
        (tmp_path / name).write_bytes(lzma.compress(STORY.encode()))
    proteins = (ROOT / "docs" / "results" / "vh.txt").read_text().splitlines()
    (tmp_path / "vh.txt").write_text("".join(f"{line[:12]}\n" for line in proteins))
    (tmp_path / "pairs").mkdir()
    pairs = "Der alte Mann.\tThe old man.\nDas Meer war ruhig.\tThe sea was calm.\n"
    (tmp_path / "test.tsv").write_text(pairs)
    (tmp_path / "pairs" / "train.tsv.xz").write_bytes(lzma.compress((8 * pairs).encode()))
    (tmp_path / "TRANSLATOR").symlink_to(translator)
    for model in (*english.iterdir(), letters / "AntiBERTy", letters / "rxn-albert"):
        (tmp_path / model.name).symlink_to(model)
    (tmp_path / "sapiens_vh").symlink_to(protein)
    (tmp_path / "GSAI-ML").mkdir()
    (tmp_path / "GSAI-ML" / "LLaDA-8B-Base").symlink_to(letters / "llada")
    squad_folder(glue_folder(tmp_path / "data", train=8, dev=8), train=3, each=6)
    toy_checkpoint(tmp_path / "BERT")
    toy_checkpoint(tmp_path / "U-PMLM-R", "anyorder-relative-bert")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands(page, workplace):
    """A page's commands in their order: one may use what those before it made, and the files the page shows."""
    pages.write_files(page.read_text(encoding="utf-8"), workplace)
    for command in commands(page):
        words = shlex.split(command)[1:]
        words += shlex.split(SHORTER.get(words[0], "") + SHORTER.get(" ".join(words[:2]), ""))
        words += ["--finetune-steps", "1"] if "--finetune-steps" in words else []
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception!r}"


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: str(p.relative_to(ROOT)))
def test_python(page, workplace, capsys):
    """A page's blocks in their order; one may use the names of those before it."""
    pages.write_files(page.read_text(encoding="utf-8"), workplace)
    names = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    assert capsys.readouterr().out


@pytest.fixture(scope="module")
def server():
    """(the address the page shows, the one where its server listens): started by the page's own command."""
    pytest.importorskip("uvicorn", reason="the extra web is not installed")
    (command,) = commands(SERVING)
    shown = re.search(r"--port (\d+)", command)[1]
    words = [*shlex.split(command, comments=True)[1:], "--port", "0"]  # the last one counts
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = subprocess.Popen([sys.executable, "-m", "anyorder", *words], stdout=subprocess.PIPE, env=environment)
    try:
        found = re.search(rb"127.0.0.1:\d+", started.stdout.readline())
        assert found, "the server did not start"
        yield f"127.0.0.1:{shown}", found[0].decode()
    finally:
        started.terminate()
        started.wait(60)


def test_what_serving_shows_for_the_shell(server):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    lines = [line for line in "".join(blocks(SERVING, "bash")).splitlines() if line.startswith("curl ")]
    assert len(lines) > 2
    for line in lines:
        words = ["curl", "--fail-with-body", "-sS", "--max-time", "60", *shlex.split(line.replace(*server))[1:]]
        answer = subprocess.run(words, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, f"{line}\n{answer.stdout}{answer.stderr}"
        if "-N" in words:
            assert answer.stdout.endswith("data: [DONE]\n\n")
        else:
            assert "error" not in json.loads(answer.stdout)


def test_what_serving_shows_of_clients(server, capsys, monkeypatch):
    pytest.importorskip("openai", reason="the openai client is not installed (extra dev)")
    monkeypatch.setattr("huggingface_hub.constants.is_offline_mode", lambda: False)  # nothing but this machine is asked
    examples = blocks(SERVING, "py")
    assert len(examples) == 2
    for block in examples:
        exec(compile(block.replace(*server), SERVING.name, "exec"), {})
        assert capsys.readouterr().out.strip()
