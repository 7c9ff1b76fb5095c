"""The edges of the command line: what a shell, a disk or a network may do to it ends in one line, never a traceback."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from anyorder.cli.common import print_json
from anyorder.cli.evaluate_perplexity import _print as perplexities
from anyorder.show.printable import printable
from anyorder.studies.perplexity import Perplexity
from running import anyorder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("the cat sat\na dog\n")
    return lambda *arguments: anyorder(monkeypatch, capsys, *map(str, arguments))


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model is a failure: what is wrong was to be seen before."""

    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("anyorder.load", load)


def one_line(answer: tuple[int, str, str], says: str, status: int = 2) -> None:
    code, out, err = answer
    assert (code, out) == (status, "")
    assert re.fullmatch(r"anyorder: [^\n]*\n", err)
    assert says in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fill", "the", "___"], "unexpected extra argument(s) (___): see anyorder fill --help"),
        (["fill", "the ___", "--tpo", "1"], "no such option: --tpo"),
        (["fill", "the ___", "--top", "many"], "--top"),
        (["joint"], "missing argument"),
        (["nothing"], "no such command 'nothing': see anyorder --help"),
        (["evaluate", "perplexity", "--test", "a" * 300], "File name too long"),
        (["fill", "the \udcff ___"], "not valid Unicode (character 5)"),
        (["score", "the \ud800"], "not valid Unicode"),
        (["generate", "--begin", "\udcff"], "not valid Unicode"),
        (["fill", "the ___", "--seed", 2**64], "seed must be at most"),
        (["score", "texts.txt", "--seed", 2**64], "seed must be at most"),
        (["fill", "the ___", "--tail", "0.1"], "--method joint"),
        (["fill", "the ___", "--top", "0"], "at least 1"),
        (["generate", "--block", "0"], "at least 1"),
        (["fill", "the ___", "--dtype", "float8"], "unknown dtype"),
        (["score", "texts.txt", "--out", "no/such/folder/x.tsv"], "cannot write"),
        (["score", "texts.txt", "--out", "/proc/x.tsv"], "cannot write"),
        (["score", "texts.txt", "--out", "done.tsv"], "--overwrite"),
        (["score", "nowhere.txt"], "no file"),
        (["score", "folder"], "folder is a folder"),
        (["score", "table.csv"], "save it as .tsv or .jsonl"),
        (["score", "texts.txt", "--out", "scores.csv"], "name the output .jsonl, or .parquet"),
        (["fill", "--file", "texts.txt", "--out", "filled.tsv"], "name the output .jsonl, or .parquet"),
        (["score", "texts.txt", "--method", "bound", "--samples", "1"], "at least 2 samples"),
        (["score", "texts.txt", "--out", "link.jsonl", "--overwrite"], "holds the texts themselves"),
        (["fill", "--file", "texts.txt", "--out", "texts.txt", "--overwrite"], "holds the texts themselves"),
        (["fill", "--file", "done.jsonl", "--column", "a", "--out", "./", "--resume"], "holds the texts themselves"),
        (["diagnose", "--data", "texts.txt", "--out", "done.html"], "--overwrite"),
        (["diagnose", "a", "--model", "b", "--data", "texts.txt"], "two models"),
        (["evaluate", "pairwise", "--data", "texts.txt", "--out", "done.tsv"], "--overwrite"),
        (["evaluate", "generation", "--samplers", "magic"], "unknown sampler"),
        (["evaluate", "generation", "--schedules", "magic"], "unknown schedule"),
        (["evaluate", "generation", "--corpus", "nowhere.txt"], "no file nowhere.txt"),
        (["evaluate", "schedule", "--data", "nowhere.txt"], "no file nowhere.txt"),
        (["evaluate", "schedule", "--data", "texts.txt", "--steps", "0"], "whole numbers from 1"),
        (["evaluate", "characters", "--held-out", "nowhere.txt"], "no file nowhere.txt"),
        (["compare", "--data", "texts.txt", "--method", "chian"], "did you mean 'chain'"),
    ],
)
def test_what_is_wrong_is_said_before_a_model_is_loaded(
    command: Any, no_model: None, tmp_path: Path, arguments: list[Any], says: str
) -> None:
    for name in ("done.tsv", "done.html"):
        (tmp_path / name).write_text("precious")
    (tmp_path / "done.jsonl").write_text('{"a": "the ___"}\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.jsonl").symlink_to("texts.txt")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    one_line(command(*arguments), says)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_device_that_is_not_there(command: Any, tiny_checkpoint: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    one_line(command("fill", "the ___", "-m", tiny_checkpoint, "--device", "cuda"), "choose cpu")
    one_line(command("fill", "the ___", "-m", tiny_checkpoint, "--device", "moon"), "cannot use the device 'moon'")


def test_another_precision_is_used(command: Any, tiny_checkpoint: Path) -> None:
    fine, rough = (
        json.loads(command("score", "the cat sat", "-m", tiny_checkpoint, "--json", "--dtype", dtype)[1])["log_prob"]
        for dtype in ("float32", "bfloat16")
    )
    assert fine != rough
    assert fine == pytest.approx(rough, rel=0.05)


def test_a_finished_file_is_replaced_if_one_says_so(command: Any, tiny_checkpoint: Path, tmp_path: Path) -> None:
    arguments = ("score", "texts.txt", "-m", tiny_checkpoint, "--out", "scores.tsv")
    assert command(*arguments)[0] == 0
    before = (tmp_path / "scores.tsv").read_bytes()
    (tmp_path / "scores.tsv").write_text("old")
    assert command(*arguments, "--overwrite")[0] == 0
    assert (tmp_path / "scores.tsv").read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk(command: Any, tiny_checkpoint: Path) -> None:
    one_line(command("score", "a dog", "-m", tiny_checkpoint, "--out", "/dev/full"), "No space left")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_standard_output() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "anyorder", "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode != 0
    assert re.fullmatch(r"anyorder: [^\n]*No space left[^\n]*\n", done.stderr)


def test_an_unreadable_file(command: Any, no_model: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)  # root may read every file, so that a mode would prove nothing
    monkeypatch.setattr("anyorder.files.reading._OPENERS", {".txt": refuse})
    one_line(command("score", "texts.txt"), "Permission denied")


def test_a_hub_out_of_reach_is_noticed_without_retries(tmp_path: Path) -> None:
    """A port on which nothing listens stands in for a network that is down; whoever retries sleeps in between."""
    environment = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    code = """
import time
time.sleep = lambda _: print("slept")
from anyorder.errors import AnyorderError
from anyorder.models.hub import check_available
from anyorder.studies.causal import load_causal, read_config
from anyorder.training.tokenizer import load_tokenizer
for read in (check_available, read_config, load_causal, load_tokenizer):
    try:
        read("bert-base-cased")
    except AnyorderError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.count("not reachable: check the path, or connect once") == 4
    assert "slept" not in done.stdout


def test_lm_eval_without_its_extra(command: Any, no_model: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.cli.lm_eval.find_spec", lambda name: None)
    one_line(command("lm-eval", "--tasks", "lambada_openai"), "pip install 'anyorder[lm-eval]'")


def test_lm_eval_offline(command: Any, no_model: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lm_eval", reason="the extra lm-eval is not installed")
    monkeypatch.setattr("anyorder.models.hub.offline_if_unreachable", lambda: True)
    monkeypatch.setattr("anyorder.cli.lm_eval._any_data", lambda: False)
    monkeypatch.setattr("lm_eval.simple_evaluate", None)  # nothing is tried, and nothing waited for
    one_line(command("lm-eval", "--tasks", "lambada_openai"), "not reachable")


def test_json_has_no_nan(capsys: Any) -> None:
    print_json({"a": math.nan, "b": [1.5, -math.inf], "c": {"d": (math.nan, "NaN")}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.5, None], "c": {"d": [None, "NaN"]}}


def test_control_characters_are_shown_escaped(command: Any, tiny_checkpoint: Path) -> None:
    assert printable("a\x1b[31mb\n\u202ec\u200dd") == "a\\x1b[31mb\\n\\u202ec\u200dd"
    _, out, _ = command("score", "the cat\x1b[31m sat", "-m", tiny_checkpoint)
    assert "\x1b" not in out
    assert "\\x1b[31m" in out


def test_version_and_completion(command: Any) -> None:
    import anyorder as package

    assert command("--version")[:2] == (0, f"anyorder {package.__version__}\n")
    assert "--install-completion" in command("--help")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "the cat sat", "the dogs sat on the mat"],
        ["compatibility", "the old man opened the door ."],
        ["joint", "the ___ man ___ on the mat .", "--top", "3"],
        ["evaluate", "pairwise", "--data", "texts.txt", "--examples", "2", "--overwrite"],
        ["evaluate", "characters", "--data", "texts.txt"],
    ],
)
def test_tables_fit_80_columns_and_keep_their_numbers(
    command: Any, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    shown = {}
    for width in (80, 300):
        monkeypatch.setenv("COLUMNS", str(width))
        status, shown[width], err = command(*arguments, "--model", tiny_checkpoint)
        assert status == 0, err
    numbers = {width: sorted(re.findall(r"-?\d+\.\d+", text)) for width, text in shown.items()}
    assert numbers[80] == numbers[300]
    assert max(map(len, shown[80].splitlines())) <= 80
    assert "…" not in shown[80]


def test_the_table_of_perplexities_has_room_for_names(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = Perplexity("anyorder-mini", "sequential", "chain", "masked", "words", 996.38, 336.48, 2950.43, 99, 9, 9, 12.5)
    perplexities([row])
    out = capsys.readouterr().out
    assert "anyorder-mini" in out
    assert "padding" not in out
    perplexities([row, replace(row, padding="predicted")])
    assert "padding" in capsys.readouterr().out


def test_a_finished_file_is_not_taken_for_one_with_other_settings(command: Any, tiny_checkpoint: Path) -> None:
    arguments = ("score", "texts.txt", "-m", tiny_checkpoint, "--out", "scores.jsonl")
    assert command(*arguments)[0] == 0
    status, _, err = command(*arguments, "--method", "pll", "--resume")
    assert status == 0
    assert err == "anyorder: note: scores.jsonl was complete and stays as it is; --overwrite would write it anew\n"


def test_words_scored_as_unknown_are_said_once(command: Any, tiny_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_text("the cat\n" + "日本\n" * 600)  # more than two windows
    _, _, err = command("score", "odd.txt", "-m", tiny_checkpoint, "--json")
    assert err == "anyorder: note: words that the tokenizer cannot represent are scored as [UNK]\n"
    assert command("score", "the cat", "-m", tiny_checkpoint, "--json")[2] == ""


def helps(command: Any, *name: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every command and its help."""
    shown = command(*name, "--help")[1]
    _, _, below = shown.partition(" Commands ")
    if not below:
        yield name, shown
    for one in re.findall(r"^│ (\S+) ", below, re.MULTILINE):
        yield from helps(command, *name, one)


def test_every_help_has_its_example_and_even_lines(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = list(helps(command))
    assert len(found) > 20
    for name, shown in found:
        assert f"Example: anyorder {' '.join(name)} " in " ".join(shown.split())
        prose = [line.strip() for line in shown.partition("╭")[0].splitlines()]
        for line, following in pairwise(prose):  # a word that would have fitted did not go on the next line
            assert not following or not line or len(f"{line} {following.split()[0]}") > 78
