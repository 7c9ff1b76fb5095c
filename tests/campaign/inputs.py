"""Bad inputs: templates, texts, options, files, recipes and HTTP bodies, made up and mutated from valid ones."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import anyorder
from anyorder.errors import AnyorderError
from anyorder.tasks import options as task_options
from anyorder.tasks.samplers import SAMPLERS
from anyorder.training import recipe as recipes
from campaign.mutate import changed, damaged, long_texts, numbers, odd_values, texts
from campaign.place import RECIPE, check_output, command, judge
from campaign.tally import Broken, Tally, check_numbers, check_sentence
from cli.test_options import COMMANDS


class Kind(NamedTuple):
    """A kind of inputs: how they are made, and what is done with one."""

    inputs: st.SearchStrategy[Any]
    act: Callable[[Any], str]


def explore(name: str, kind: Kind, examples: int, number: int, tally: Tally) -> None:
    """Try ``examples`` inputs of the sequence that the seed ``number`` stands for."""

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind.inputs)
    def each(case: Any) -> None:
        tally.attempt(name, number, case, lambda: kind.act(case))

    each()


# --- the library -----------------------------------------------------------------------------------------------------

_SMALL = st.sampled_from([-1, 0, 1, 2, 3, 5])
_SHARES = st.sampled_from([-1.0, 0.0, 1e-9, 0.1, 0.5, 0.999, 1.0, 2.0, 1e30, float("nan"), float("inf")])
_STRINGS = {
    "order": ["confidence", "entropy", "left-to-right", "right-to-left", "random", "given:2,1", "given:", "given:1,1"],
    "sampler": list(SAMPLERS),
    "schedule": ["linear", "cosine", "measured", "optimal"],
    "start": ["mask", "random", "draft"],
    "mode": ["random", "sequential"],
    "influence": ["attention", "source", "exact"],
}
METHODS = {
    "fill": task_options.FillOptions,
    "generate": task_options.GenerateOptions,
    "score": task_options.ScoreOptions,
    "joint": task_options.JointOptions,
}


def _values(name: str, kind: Any, choices: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Values of an option's own type, within its limits or not."""
    if choices or name in _STRINGS:
        return st.sampled_from([*choices, *_STRINGS.get(name, []), "nothing"])
    of = str(kind)
    if "bool" in of:
        return st.booleans()
    if name == "seed":
        return st.sampled_from([0, 1, 2**63 - 1, 2**63, -1])
    if "int" in of:
        return _SMALL
    return _SHARES if "float" in of else texts


@st.composite
def _calls(draw: st.DrawFn) -> tuple[str, Any, dict[str, Any]]:
    method = draw(st.sampled_from(list(METHODS)))
    options = METHODS[method]
    types = get_type_hints(options)
    of = {one.name: _values(one.name, types[one.name], one.metadata["choices"]) for one in fields(options)}
    of.pop("prompt", None)
    chosen = draw(st.lists(st.sampled_from(list(of)), max_size=3, unique=True))
    said = {name: draw(of[name]) for name in chosen}
    text = draw(texts | long_texts)
    several = method in ("fill", "generate", "score") and draw(st.integers(0, 3)) == 0
    return method, [text, *draw(st.lists(texts, max_size=2))] if several else text, said


def _call(lm: Any, case: tuple[str, Any, dict[str, Any]]) -> str:
    method, given, said = case
    try:
        found = getattr(lm, method)(given, **said)
    except AnyorderError as error:
        check_sentence(str(error))
        return "refused"
    for one in _flat(found):
        check_numbers(one.to_dict() if hasattr(one, "to_dict") else one)
    return "answered"


def _flat(found: Any) -> Iterator[Any]:
    for one in found if isinstance(found, list) else [found]:
        yield from _flat(one) if isinstance(one, list) else [one]


# --- the command line ------------------------------------------------------------------------------------------------

# What would not end, starts a server, or takes seconds for a sound answer.
_LEFT_OUT = ("serve", "lm-eval", "finetune", "evaluate understanding", "train", "certify", "evaluate latency")
_NAMES = [name for name in COMMANDS if name not in _LEFT_OUT]
# What keeps a sound answer short.
_DRAWS = {
    "diagnose": "--texts 2 --chains 4 --sweeps 4",
    "lab efficiency": "--n 3 --masks 1 --samples 5 --repeats 2",
    "evaluate pairwise": "--examples 2",
    "evaluate generation": "--texts 2 --length 6",
    "compatibility": "--examples 2",
}


@st.composite
def _lines(draw: st.DrawFn) -> list[str]:
    """A command that would run, with options of its own, some of them with another value."""
    name = draw(st.sampled_from([*_NAMES, "fill", "generate", "score", "joint", "translate"]))
    listed = COMMANDS[name]
    said: list[str] = []
    for word in listed.needed.split():
        said.append(draw(texts) if word == "TEXT" else word)
    said += _DRAWS.get(name, "").split()
    for option in draw(st.lists(st.sampled_from(listed.options), max_size=3)):
        flag, *values = option.partition(" @")[0].split()
        if flag in ("--model", "--device", "--out", "--plot", "--judge", "--parser", "--work", "--size"):
            continue
        said += option.partition(" @ ")[2].split() if draw(st.booleans()) else []
        said += [flag, *([draw(st.just(values[-1]) | numbers | texts)] if values else [])]
    if draw(st.booleans()) and "--json" in listed.printed:
        said.append("--json")
    if draw(st.integers(0, 9)) == 0:
        said.insert(draw(st.integers(0, len(said))), draw(texts | st.sampled_from(["--tpo", "--help", "--", "-n"])))
    flags = {option.split()[0] for option in listed.options}
    named = next((flag for flag in ("--model", "--models") if flag in flags), None)
    model = [named, "translator" if name == "translate" else "model"] if named else []
    return [*name.split(), *model, *said]


def _run(case: list[str]) -> str:
    for file in (*Path().glob("*.unfinished"), Path("runs")):
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    return judge(command(*case), " ".join(case))


# --- files -----------------------------------------------------------------------------------------------------------

_FILES = {"blanks.txt": "fill --file", "texts.tsv": "score", "texts.jsonl": "score", "texts.txt": "translate --file"}
_PACKED: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": partial(gzip.compress, mtime=0), ".xz": lzma.compress}


@st.composite
def _files(draw: st.DrawFn) -> tuple[list[str], str, bytes]:
    """A command over a file that was damaged, packed or not, before or after."""
    name = draw(st.sampled_from(list(_FILES)))
    ending = draw(st.sampled_from(["", "", ".gz", ".xz"]))
    whole = Path(name).read_bytes()
    before = draw(st.booleans())
    data = _PACKED[ending](draw(damaged(whole)) if before else whole)
    data = data if before else draw(damaged(data))
    words = _FILES[name].split()
    said = [
        words[0],
        "--model",
        "translator" if words[0] == "translate" else "model",
        *words[1:],
        f"bad-{name}{ending}",
    ]
    if words[0] == "score":
        said += ["--column", draw(st.sampled_from(["a", "b", "1", "2", "text", "9", "", "0"]))] * draw(
            st.integers(0, 1)
        )
        said += ["--format", draw(st.sampled_from(["tsv", "jsonl", "lines", "csv"]))] * draw(st.integers(0, 1))
    return said, said[said.index(f"bad-{name}{ending}")], data


def _read(case: tuple[list[str], str, bytes]) -> str:
    said, name, data = case
    Path(name).write_bytes(data)
    try:
        return judge(command(*said), str(data))
    finally:
        Path(name).unlink()


# --- recipes ---------------------------------------------------------------------------------------------------------

_KEYS = st.sampled_from(
    [one.name for group in vars(recipes).values() if isinstance(group, type) and hasattr(group, "__dataclass_fields__")
     for one in fields(group)]
)  # fmt: skip


def _yaml(value: Any) -> bytes:
    try:
        return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, ValueError):
        return b"{"


_recipes = changed(RECIPE, _KEYS).map(_yaml) | damaged(_yaml(RECIPE))


def _train(case: bytes) -> str:
    Path("bad.yaml").write_bytes(case)
    shutil.rmtree("run", ignore_errors=True)
    # An hour's work is no hang: where nothing else is wrong, a run of two steps shows it.
    small = ["optim.steps=2", "output=run", "tokenizer.vocab_size=99"]
    small += ["model.hidden_size=8", "model.layers=1"] if len(case) % 2 else []
    said = command("train", "bad.yaml", "--quiet", *(word for one in small for word in ("--set", one)))
    outcome = judge(said, str(case))
    log = Path("run/metrics.jsonl")
    if outcome == "answered" and log.exists():
        check_output(log.read_text())
    return outcome


# --- HTTP ------------------------------------------------------------------------------------------------------------

BODIES: dict[str, dict[str, Any]] = {
    "/fill": {
        "texts": ["the ___ sat", "a ___{1-2} ."],
        "top": 2,
        "method": "beam",
        "beam": 4,
        "seed": 1,
        "alone": True,
    },
    "/generate": {
        "texts": "the ... sat",
        "sampler": "gibbs",
        "steps": 3,
        "temperature": 0.5,
        "length": 6,
        "samples": 2,
    },
    "/score": {"texts": ["the cat", ""], "method": "bound", "samples": 2, "per_token": True, "stride": 3},
    "/joint": {"text": "the ___ ___", "method": "ag", "top": 2, "cells": 3, "tail": 0.5},
    "/tokens": {"text": "the ___ sat", "position": 1, "top": 3, "ids": None},
    "/v1/completions": {"prompt": "the ___", "max_tokens": 4, "n": 1, "temperature": 1.0, "logprobs": 1, "stop": "."},
    "/infill": {"input_prefix": "the ", "input_suffix": " sat", "n_predict": 2},
    "/fill-mask": {"inputs": "the [MASK] sat", "parameters": {"top_k": 2, "targets": ["cat"]}},
}
_FIELDS = st.sampled_from([*sorted({key for body in BODIES.values() for key in body}), "stream", "echo", "suffix"])


@st.composite
def _bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    path = draw(st.sampled_from(list(BODIES)))
    body = draw(changed(BODIES[path], _FIELDS))
    if draw(st.integers(0, 3)) == 0:
        return path, draw(damaged(json.dumps(BODIES[path]).encode()))
    if isinstance(body, dict) and draw(st.booleans()):
        body |= {"texts": draw(texts)} if "texts" in body else {"text": draw(texts)} if "text" in body else {}
    return path, json.dumps(body).encode("utf-8", "surrogatepass")


def _post(client: Any, case: tuple[str, bytes]) -> str:
    path, body = case
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    if answer.headers["content-type"].startswith("text/event-stream"):
        events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        said = [json.loads(event, parse_constant=_no_constant) for event in events]
        errors = [one["error"] for one in said if "error" in one]
    else:
        said = json.loads(answer.text, parse_constant=_no_constant)
        errors = [said["error"]] if answer.status_code >= 400 else []
    for error in errors:
        check_sentence(error["message"])
        if error["code"] >= 500:
            raise Broken(f"status {error['code']}: {error['message']}")
    if answer.status_code >= 500:
        raise Broken(f"status {answer.status_code}")
    return "refused" if errors else "answered"


def _no_constant(name: str) -> None:
    raise Broken(f"{name} in an answer")


@contextmanager
def client_of(lm: Any) -> Iterator[Any]:
    """A client of the application itself, without a socket between."""
    from starlette.testclient import TestClient

    from anyorder.serve.app import make_app
    from anyorder.serve.options import ServeOptions

    app = make_app(lm, ServeOptions(seconds=15))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def kinds(client: Any) -> dict[str, Kind]:
    """All kinds of inputs; the working directory is a :func:`campaign.place.place`."""
    return {
        "texts and templates": Kind(_calls(), partial(_call, anyorder.load("model"))),
        "options": Kind(_lines(), _run),
        "files": Kind(_files(), _read),
        "recipes": Kind(_recipes, _train),
        "HTTP bodies": Kind(_bodies(), partial(_post, client)),
    }


__all__ = ["BODIES", "Kind", "client_of", "explore", "kinds", "odd_values"]
