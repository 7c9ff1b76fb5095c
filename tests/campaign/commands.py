"""Bad inputs to the command line: options and files, made up and mutated from what is answered."""

from __future__ import annotations

import gzip
import lzma
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from campaign.again import bytes_again
from campaign.inputs import Kind
from campaign.mutate import damaged, numbers, texts
from campaign.place import command, judge
from cli.test_options import COMMANDS

# What would not end, starts a server, or takes seconds for a sound answer.
_LEFT_OUT = ("serve", "lm-eval", "finetune", "evaluate understanding", "train", "certify", "evaluate latency")
NAMES = [name for name in COMMANDS if name not in _LEFT_OUT]
# What is needed where the table's own arguments would be refused, stand-ins aside.
_NEEDED = {"evaluate translation": "--data pairs.tsv"}
# What keeps a sound answer short.
_DRAWS = {
    "generate": "--length 6",
    "joint": "--method mrf",
    "diagnose": "--texts 1 --length 4 --pairs 2 --chain-texts 1 --chains 2 --sweeps 8 --samples 2",
    "lab efficiency": "--n 3 --masks 1 --samples 5 --repeats 2",
    "lab parallel": "--n 3 --stutter-n 2",
    "lab mixing": "--n 3",
    "evaluate pairwise": "--examples 2 --method mlm --method mrf",
    "evaluate generation": "--texts 2 --length 6 --steps 2",
    "evaluate perplexity": "--length 8",
    "evaluate translation": "--steps 1 --limit 2 --resamples 5",
    "compatibility": "--examples 2",
}


def line(name: str, text: Callable[[], str]) -> list[str]:
    """A command that is answered, in the least time; ``text`` gives the texts that it takes."""
    listed = COMMANDS[name]
    said = [text() if word == "TEXT" else word for word in _NEEDED.get(name, listed.needed).split()]
    flags = {option.split()[0] for option in listed.options}
    named = next((flag for flag in ("--model", "--models") if flag in flags), None)
    model = [named, "translator" if "translat" in name else "model"] if named else []
    return [*name.split(), *model, *said, *_DRAWS.get(name, "").split()]


@st.composite
def _lines(draw: st.DrawFn) -> list[str]:
    """A command that would run, with options of its own, some of them with another value."""
    name = draw(st.sampled_from([*NAMES, "fill", "generate", "score", "joint", "translate"]))
    listed = COMMANDS[name]
    said = line(name, lambda: draw(texts))
    for option in draw(st.lists(st.sampled_from(listed.options), max_size=3)):
        flag, *values = option.partition(" @")[0].split()
        if flag in ("--model", "--device", "--out", "--plot", "--judge", "--parser", "--work", "--size"):
            continue
        said += option.partition(" @ ")[2].split() if draw(st.booleans()) else []
        said += [flag, *([draw(st.just(values[-1]) | numbers | texts)] if values else [])]
    if draw(st.booleans()) and "--json" in listed.printed:
        said.append("--json")
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(len(name.split()), len(said)))
        said.insert(at, draw(texts | st.sampled_from(["--tpo", "--help", "--", "-n"])))
    return said


def _run(case: list[str]) -> str:
    for file in (*Path().glob("*.unfinished"), Path("runs")):
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    return judge(command(*case), " ".join(case))


# --- files -----------------------------------------------------------------------------------------------------------

# A sound file, and a command over one like it: {} is its place.
FILES = [
    ("blanks.txt", "fill --model model --file {}"),
    ("blanks.txt", "generate --model model --file {}"),
    ("texts.tsv", "score --model model {} --column a"),
    ("texts.jsonl", "score --model model {}"),
    ("texts.txt", "translate --model translator --file {} --steps 1"),
    ("pairs.jsonl", "compare --model model --data {}"),
    ("here/metrics.jsonl", "evaluate curves a={}"),
    ("world.json", "lab mixing --world {}"),
    ("world.npy", "lab mixing --world {}"),
]
SLOW = [("pairs.tsv", "evaluate translation --model translator --data {} --steps 1 --limit 2 --resamples 5")]
_UNPACKED = ("here/metrics.jsonl", "world.json", "world.npy")
_PACKED: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": partial(gzip.compress, mtime=0), ".xz": lzma.compress}


@st.composite
def _files(draw: st.DrawFn) -> tuple[list[str], str, bytes]:
    """A command over a file that was damaged, packed or not, before or after."""
    name, words = draw(st.sampled_from(SLOW if draw(st.integers(0, 39)) == 0 else FILES))
    ending = "" if name in _UNPACKED else draw(st.sampled_from(["", "", ".gz", ".xz"]))
    whole = Path(name).read_bytes()
    before = draw(st.booleans())
    data = _PACKED[ending](draw(damaged(whole)) if before else whole)
    data = data if before else draw(damaged(data))
    bad = f"bad-{Path(name).name}{ending}"
    said = words.format(bad).split()
    if said[0] == "score":
        columns = ["a", "b", "1", "2", "text", "9", "", "0"]
        said += ["--column", draw(st.sampled_from(columns))] * draw(st.integers(0, 1))
        said += ["--format", draw(st.sampled_from(["tsv", "jsonl", "lines", "csv"]))] * draw(st.integers(0, 1))
    return said, bad, data


def _file_again(case: tuple[list[str], str, bytes], rng: Random) -> tuple[list[str], str, bytes]:
    return case[0], case[1], bytes_again(case[2], rng)


def _read(case: tuple[list[str], str, bytes]) -> str:
    said, name, data = case
    Path(name).write_bytes(data)
    try:
        return judge(command(*said), str(data))
    finally:
        Path(name).unlink()


def kinds() -> dict[str, Kind]:
    """The kinds of this file; the working directory is a :func:`campaign.place.place`."""
    return {"options": Kind(_lines(), _run), "files": Kind(_files(), _read, _file_again)}
