"""The library's own endpoints answer what the library answers."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import httpx
import pytest

import anyorder
from anyorder.serve import own
from anyorder.serve.costs import cost
from anyorder.serve.requests import as_a_body_says
from anyorder.tasks.joint import described, text_joints
from anyorder.tasks.options import FillOptions, GenerateOptions, JointsOptions, ScoreOptions, TranslateOptions
from crowd import at_once, close
from tiny import tiny_translator

TEXTS = ["the ___ sat on the ___ .", "a ___ dog", "the old ___{1-2} ran ."]


def messages(client: httpx.Client, path: str, body: dict[str, Any]) -> list[Any]:
    """The events of a stream."""
    with client.stream("POST", path, json=body) as response:
        assert response.status_code == 200
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_fill_is_the_librarys(client, tiny_lm):
    answer = client.post("/fill", json={"texts": TEXTS, "top": 3, "order": "left-to-right"}).json()
    for found, text in zip(answer["results"], TEXTS, strict=True):
        expected = [one.to_dict() for one in tiny_lm.fill(text, top=3, order="left-to-right")]
        assert [one["text"] for one in found["completions"]] == [one["text"] for one in expected]
        assert found["completions"][0]["log_prob"] == pytest.approx(expected[0]["log_prob"], abs=1e-4)
    one = client.post("/fill", json={"texts": TEXTS[0], "alone": True, "method": "sample", "seed": 3}).json()["results"]
    assert len(one) == 1
    assert len(one[0]["alone"]["blanks"]) == 2
    assert one[0]["completions"][0]["text"] == tiny_lm.fill(TEXTS[0], method="sample", seed=3)[0].text


def test_an_empty_text_among_several_has_no_completions_and_alone_is_refused(client):
    assert client.post("/fill", json={"texts": ["", "a ___"], "top": 1}).json()["results"][0]["completions"] == []
    assert client.post("/fill", json={"texts": ""}).status_code == 400


@pytest.mark.parametrize("said", [{}, {"sampler": "gibbs", "block": 2}, {"order": [2, 1], "temperature": 0.5}], ids=str)
def test_generate_is_the_librarys(client, tiny_lm, said):
    options = {**said, "order": tuple(said["order"])} if "order" in said else said
    answer = client.post("/generate", json={"texts": TEXTS[0], "samples": 2, "seed": 5, **said}).json()
    expected = tiny_lm.generate(TEXTS[0], samples=2, seed=5, **options)
    assert [one["text"] for one in answer["results"][0]] == [one.text for one in expected]
    assert [one["tokens"] for one in answer["results"][0]] == [list(one.tokens) for one in expected]


def test_without_a_prompt_there_are_the_other_shapes(client, tiny_lm):
    answer = client.post("/generate", json={"begin": "the cat", "length": 8, "seed": 1}).json()
    assert answer["results"][0][0]["text"] == tiny_lm.generate(begin="the cat", length=8, seed=1)[0].text


def test_a_stream_tells_every_step_and_ends_with_the_same_text(client, tiny_lm):
    body = {"texts": TEXTS[:2], "samples": 2, "seed": 5, "stream": True, "canvas": True}
    told = messages(client, "/generate", body)
    expected = [one.text for several in tiny_lm.generate(TEXTS[:2], samples=2, seed=5) for one in several]
    for row in range(4):
        start, *states, end = [one for one in told if one["row"] == row]
        assert (start["type"], end["type"]) == ("start", "end")
        assert (start["input"], start["sample"]) == divmod(row, 2)
        assert [start["tokens"][p] for p in start["positions"]] == [None] * len(start["positions"])
        assert [one["step"] for one in states] == list(range(1, len(start["positions"]) + 1))
        ids = start["ids"]
        for one in states:
            (changed,) = one["changed"]
            assert changed["log_prob"] < 0 < changed["entropy"]
            ids[changed["position"]] = changed["id"]
            assert one["ids"] == ids
        assert end["result"]["text"] == states[-1]["text"] == expected[row]
        assert sum(one["changed"][0]["log_prob"] for one in states) == pytest.approx(end["result"]["log_prob"])
    plain = messages(client, "/generate", {**body, "canvas": False})
    assert {tuple(one) for one in plain if one["type"] == "state"} == {("type", "row", "step", "text")}


def test_score_is_the_librarys(client, tiny_lm):
    body = {"texts": ["the cat sat .", "", "the dog ran"], "method": "pll", "per_token": True}
    answer = client.post("/score", json=body).json()["results"]
    expected = tiny_lm.score(body["texts"], method="pll", per_token=True)
    assert [one["log_prob"] for one in answer] == pytest.approx([one.log_prob for one in expected], abs=1e-4)
    assert [len(one["per_token"]) for one in answer] == [4, 0, 3]


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return anyorder.load(str(tiny_translator(tmp_path_factory.mktemp("translator"))))


SOURCES = ["Der alte Mann.", "", "Das Meer war ruhig."]


@pytest.mark.parametrize("said", [{}, {"draw": True, "seed": 3, "steps": 2, "lengths": 2, "must": ["cat"]}], ids=str)
def test_translate_is_the_librarys_alone_and_in_a_crowd(serving, translator, said):
    options = {**said, "must": tuple(said.get("must", ()))}
    expected = [one.to_dict() for one in translator.translate(SOURCES, **options)]
    first = translator.translate(SOURCES[0], **options).to_dict()
    bodies = [{"texts": SOURCES, **said}, {"texts": SOURCES[0], **said}, {"texts": " ", **said}]
    with serving(lm=translator) as (client, app):
        lonely = [client.post("/translate", json=body) for body in bodies]
        crowd = at_once(client, app, "/translate", bodies)
    for answers in (lonely, crowd):
        assert [one.status_code for one in answers] == [200, 200, 400]
        assert close(answers[0].json()["results"], expected)
        assert close(answers[1].json()["results"], [first])
        assert answers[2].json()["error"]["message"].startswith("the source is empty")


def test_a_model_that_cannot_translate_says_so(client):
    answer = client.post("/translate", json={"texts": "Der alte Mann."})
    assert answer.status_code == 400
    assert "was not trained on pairs" in answer.json()["error"]["message"]


@pytest.mark.parametrize("said", [{"steps": "1,2"}, {"steps": 0}, {"must": "cat"}, {"lengths": 65}], ids=str)
def test_translate_takes_one_number_of_steps_and_a_list_of_words(client, said):
    assert client.post("/translate", json={"texts": "der Mann", **said}).status_code == 400


def test_joint_is_the_commands_object_and_a_table_for_each_method(client, tiny_lm):
    text = "the ___ ___ on the mat"
    answer = client.post("/joint", json={"text": text, "method": "ag", "cells": 4, "top": 3}).json()
    options = JointsOptions("ag", top=3)
    joints = text_joints(tiny_lm, text, ("ag", "mlm"), options)
    heat = answer.pop("heat")
    expected = json.loads(json.dumps(described(tiny_lm, text, joints, options)))
    assert answer["methods"]["ag"]["pairs"][0] == pytest.approx(expected["methods"]["ag"]["pairs"][0])
    assert answer["methods"].keys() == heat["tables"].keys() == {"ag", "mlm"}
    for name, table in heat["tables"].items():
        for i, a in enumerate(heat["a"]):
            p = [joints[name].log_prob(a, b).exp().item() for b in heat["b"]]
            assert table["prob"][i] == pytest.approx(p, rel=1e-3)
        assert table["shown"] == pytest.approx(sum(map(sum, table["prob"])))
        best = answer["methods"][name]["pairs"][0]
        assert best["a"] in heat["a"]
        assert best["b"] in heat["b"]


def test_tokens_says_what_else_could_stand_there(client, tiny_lm):
    asked = {"text": "the cat sat on the mat .", "position": 2, "top": 3}
    answer = client.post("/tokens", json=asked).json()
    assert "".join(answer["tokens"]) == "the cat sat on the mat."
    alone = tiny_lm.fill("the ___ sat on the mat .", top=3, whole_words=False)
    assert [one["token"] for one in answer["alternatives"]] == [one.fills[0] for one in alone]
    assert answer["held"]["id"] == answer["ids"][2]
    assert answer["entropy"] > 0
    again = client.post("/tokens", json={"ids": answer["ids"], "position": 2, "top": 3}).json()
    assert again == answer
    assert client.post("/tokens", json={"text": "a cat", "position": 0}).status_code == 400  # [CLS]
    assert client.post("/tokens", json={"text": "a cat", "position": 99}).status_code == 400
    assert client.post("/tokens", json={"ids": [99999]}).status_code == 400


@pytest.mark.parametrize(
    ("body", "options", "beside"),
    [
        (own.FillBody, FillOptions, {"texts", "alone"}),
        (own.ScoreBody, ScoreOptions, {"texts"}),
        (own.JointBody, JointsOptions, {"text", "cells"}),
        (own.GenerateBody, GenerateOptions, {"texts", "stream", "canvas"}),
        (own.TranslateBody, TranslateOptions, {"texts"}),
    ],
)
def test_bodies_have_the_options_of_the_commands(body, options, beside):
    names = {one.name for one in fields(options)} - {"prompt"}
    assert body.model_fields.keys() - beside == names
    for one in fields(options):
        if one.name in names:
            assert body.model_fields[one.name].default == one.default
            assert body.model_fields[one.name].description == as_a_body_says(one.metadata["help"])


def test_about_the_server(client):
    assert client.get("/health").json()["max_length"] == 64
    assert "/v1/completions" in client.get("/docs").text
    assert 'anyorder_requests_total{endpoint="/health",status="200"}' in client.get("/metrics").text


def test_a_monitor_may_ask_without_a_body(client):
    answer = client.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_the_docs_say_what_a_body_says(client):
    """Every field is explained, in JSON's words; a command's flags are not a body's."""
    listed = client.get("/docs").text
    assert "<td><code>parameters.top_k</code>" in listed
    assert "<td>false<td>" in listed
    assert "<td>False<td>" not in listed
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    bodies = [name for name in schemas if name in ("Fill", "Generate", "Score", "Joint", "Translate", "FillMask")]
    assert len(bodies) == 6
    for name in bodies:
        for field in schemas[name]["properties"].values():
            assert field["description"]
            assert "--" not in field["description"]
    assert client.get("/docs.css").status_code == 200


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("raise --length", "raise length"),
        ("use --any-pieces", "use whole_words: false"),
        ("start the server with --cors", "start the server with --cors"),
        ("`anyorder lab mixing --out F --n 3`, or --schedule", "`anyorder lab mixing --out F --n 3`, or schedule"),
        ("with anyorder generate --given", "with anyorder generate --given"),
    ],
)
def test_options_are_named_as_a_body_names_them(said, shown):
    assert as_a_body_says(said) == shown


def test_the_page_is_there(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]


def counted(client: httpx.Client, name: str) -> float:
    """A number of /metrics."""
    return float(re.search(rf"^anyorder_{name} (\S+)$", client.get("/metrics").text, re.M)[1])


def test_what_is_counted_is_a_request_and_a_text(client):
    """A request of more texts than go together has one first token, and every text its own steps."""
    names = ("first_token_seconds_count", "steps_per_text_count", "steps_per_text_sum")
    before = [counted(client, name) for name in names]
    body = {"texts": ["the cat ___{2}", "a ___{3} dog"], "samples": 50, "order": "random"}
    assert len(client.post("/generate", json=body).json()["results"]) == 2
    after = [counted(client, name) for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 100, 50 * 2 + 50 * 3]


@pytest.mark.parametrize(
    ("text", "rows"),
    [("the ___ sat", 1), ("the ___{40} sat", 40), ("a ___{2-4} b ______ c", 3 * 5), ("a [MASK] ___", 2)],
)
def test_the_cost_of_blanks_is_that_of_all_their_tokens(tiny_lm, text, rows):
    row = 2 + len(text) // 4  # and the blanks, where there is room
    assert rows * row <= cost(tiny_lm, "fill", [text], FillOptions(beam=1)) <= rows * 64


def test_an_unknown_word_is_text(client):
    said = client.post("/tokens", json={"text": "the \u2603 sat", "position": 2}).json()
    assert said["tokens"][2].strip() == "[UNK]"
    assert said["special"] == [0, 4]
