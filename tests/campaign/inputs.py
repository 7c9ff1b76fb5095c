"""Bad inputs to the library and over HTTP: templates, options and bodies, made up or mutated from valid ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple, get_type_hints

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import anyorder
from anyorder.errors import AnyorderError
from anyorder.tasks import options as task_options
from anyorder.tasks.samplers import SAMPLERS
from campaign.again import json_again, text_again
from campaign.mutate import changed, damaged, long_texts, texts
from campaign.tally import Broken, Tally, check_numbers, check_sentence

MUTANTS = 4  # of each input that hypothesis makes, where its kind has a way to make them


class Kind(NamedTuple):
    """A kind of inputs: how they are made, what is done with one, and how another is made of one."""

    inputs: st.SearchStrategy[Any]
    act: Callable[[Any], str]
    again: Callable[[Any, Random], Any] | None = None


def explore(name: str, kind: Kind, examples: int, number: int, tally: Tally) -> None:
    """Try some ``examples`` inputs of the sequence that the seed ``number`` stands for."""
    again = kind.again

    @seed(number)
    @settings(
        max_examples=examples if again is None else -(-examples // (1 + MUTANTS)),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind.inputs)
    def each(case: Any) -> None:
        rng = Random(repr(case))
        others = [again(case, rng) for _ in range(MUTANTS)] if again is not None else []
        for one in (case, *others):
            tally.attempt(name, number, one, partial(kind.act, one))

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
# What an answer costs most: a step per token, and iterations over the whole table. One input in ten is asked for it.
_CHEAP = {"generate": ("length", 4), "joint": ("method", "mrf")}


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


@cache
def _options(method: str) -> dict[str, st.SearchStrategy[Any]]:
    """Values for every option of a method; reading its types takes longer than most inputs do."""
    options = METHODS[method]
    types = get_type_hints(options)
    of = {one.name: _values(one.name, types[one.name], one.metadata["choices"]) for one in fields(options)}
    of.pop("prompt", None)
    return of


@st.composite
def _calls(draw: st.DrawFn) -> tuple[str, Any, dict[str, Any]]:
    method = draw(st.sampled_from(list(METHODS)))
    of = _options(method)
    chosen = draw(st.lists(st.sampled_from(list(of)), max_size=3, unique=True))
    said = {name: draw(of[name]) for name in chosen}
    if method in _CHEAP and draw(st.integers(0, 9)):
        name, value = _CHEAP[method]
        said.setdefault(name, value)
    text = draw(texts | long_texts)
    several = method in ("fill", "generate", "score") and draw(st.integers(0, 3)) == 0
    return method, [text, *draw(st.lists(texts, max_size=2))] if several else text, said


def _call_again(case: tuple[str, Any, dict[str, Any]], rng: Random) -> tuple[str, Any, dict[str, Any]]:
    """Another text, or an option with a value of another one."""
    method, given, said = case
    if said and rng.random() < 0.3:
        name = rng.choice(list(said))
        return method, given, {**said, name: rng.choice([-1, 0, 1, 2, 3, 0.5, 1.5, float("nan"), float("inf")])}
    if isinstance(given, list):
        return method, [text_again(text, rng) for text in given], said
    return method, text_again(given, rng), said


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
    """The kinds of this file; the working directory is a :func:`campaign.place.place`."""
    return {
        "texts and templates": Kind(_calls(), partial(_call, anyorder.load("model")), _call_again),
        "HTTP bodies": Kind(_bodies(), partial(_post, client), lambda case, rng: (case[0], json_again(case[1], rng))),
    }
