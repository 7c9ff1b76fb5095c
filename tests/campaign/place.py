"""Where a campaign happens: a folder with tiny models and valid files, and the command line run in this process."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
import yaml

import anyorder
from anyorder.cli import main
from campaign.tally import Broken, check_numbers, check_sentence
from tiny import WORDS, tiny_checkpoint_of, tiny_translator

RECIPE: dict[str, Any] = {
    "output": "run",
    "data": {"files": ["corpus.txt"], "length": 16, "holdout": 0.2, "min_tokens": 2},
    "tokenizer": {"path": "model"},
    "model": {"kind": "bert", "hidden_size": 8, "layers": 1, "heads": 2, "intermediate": 8},
    "optim": {"steps": 2, "batch": 2, "micro_batch": 2, "warmup": 1},
    "run": {"checkpoint_every": 2, "evaluate_every": 2, "evaluate_blocks": 2, "log_every": 1, "threads": 1},
}
MEMORY = "/dev/shm"


class Said(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


@contextmanager
def place() -> Iterator[Path]:
    """A folder that is the working directory, with a model, a translator and small files of every kind."""
    before = Path.cwd()
    # In memory where the system offers it: a campaign writes some 10^5 files, and waits for none of them.
    folder = Path(tempfile.mkdtemp(prefix="campaign-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    try:
        os.chdir(folder)
        furnish(folder)
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


def furnish(folder: Path) -> None:
    """Write the models and files; the same ones every time."""
    tiny_checkpoint_of("bert", folder / "model", num_hidden_layers=1)  # half the time to load
    tiny_translator(folder / "translator")
    rng = random.Random(0)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(2, 8))) for _ in range(12)]
    for name in ("texts.txt", "others.txt", "more.txt"):
        (folder / name).write_text("\n".join(lines) + "\n")
    (folder / "corpus.txt").write_text("\n\n".join(lines) + "\n")
    (folder / "blanks.txt").write_text("".join(f"{line} ___ .\n" for line in lines))
    (folder / "texts.tsv").write_text("a\tb\n" + "".join(f"{line}\t{line}\n" for line in lines))
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{line}\n" for line in lines))
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    pairs = [{"sentence_good": a, "sentence_bad": b} for a, b in pairwise(lines)]
    for name in ("pairs.jsonl", "others.jsonl"):
        (folder / name).write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    (folder / "here").mkdir()  # what `evaluate curves` reads
    np.save(folder / "world.npy", np.full((2, 2), 0.25))
    (folder / "world.json").write_text("[[0.25, 0.25], [0.25, 0.25]]\n")
    rows = [{"step": n, "tokens": 9 * n, "validation": {"value": 4.0, "standard_error": 0.1}} for n in (1, 2)]
    (folder / "here" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@contextmanager
def loaded_once() -> Iterator[None]:
    """What is the same for every input is made once: a checkpoint's model, and typer's tree of commands."""
    real, tree = anyorder.load, typer.main.get_command
    anyorder.load = functools.lru_cache(maxsize=8)(real)
    typer.main.get_command = functools.cache(tree)
    try:
        yield
    finally:
        anyorder.load, typer.main.get_command = real, tree


def command(*arguments: str) -> Said:
    """Run ``anyorder arguments...`` in this process, as a shell would see it."""
    before = sys.argv
    # Files, since a command may ask for the descriptors of its streams.
    with _stream() as out, _stream() as err:
        with redirect_stdout(out), redirect_stderr(err):
            sys.argv = ["anyorder", *arguments]
            try:
                main()
                status = 0
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
            finally:
                sys.argv = before
        out.seek(0)
        err.seek(0)
        return Said(status, out.read(), err.read())


def _stream() -> Any:
    return tempfile.TemporaryFile("w+", encoding="utf-8", dir=".")


def judge(said: Said, given: str = "") -> str:
    """ "answered" or "refused", if the command kept its promises.

    Args:
        said: What it did.
        given: Its arguments; where they say "nan" themselves, so may the output.
    """
    if "Traceback" in said.err:
        raise Broken(f"a traceback: {said.err[-300:]}")
    if said.status == 2:
        if not said.err.startswith("anyorder: "):
            raise Broken(f"a refusal of another form: {said.err!r}")
        check_sentence(said.err)
        return "refused"
    if said.status != 0:
        raise Broken(f"status {said.status}: {said.err[-300:]!r}")
    check_output(said.out, given)
    return "answered"


def check_output(out: str, given: str = "") -> None:
    """No NaN in what was printed, be it JSON, lines of JSON, or a table."""
    for part in [out, *out.splitlines()]:
        if part.startswith(("{", "[")):
            try:
                check_numbers(json.loads(part))
            except json.JSONDecodeError:
                continue
    if "nan" not in given.lower() and re.search(r"(?<!\w)nan(?!\w)", out):
        raise Broken(f"NaN is printed: {out[-300:]!r}")
