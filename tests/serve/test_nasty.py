"""Bodies that nobody should send: a 4xx with one clear sentence, never a 500, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

HUGE = [2**63, 2**64, -(2**63) - 1, 10**30, -1]
JSON = {"Content-Type": "application/json"}


def refused(answer: Any) -> str:
    assert 400 <= answer.status_code < 500, answer.text[:300]
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    message = error["message"]
    assert 10 < len(message) < 500
    assert "\n" not in message
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"1", b'"text"', b"{", b"\x00" * 100, b"\xff\xfe\x00", b'{"texts": "a ___"',
        b"[" * 100_000, b'{"texts":' * 50_000 + b"1" + b"}" * 50_000, b'{"texts": ' + b"9" * 10_000 + b"}",
        b'{"texts": "a ___", "tail": NaN, "method": "joint"}', b'{"texts": "a ___", "top": 1e999}',
        b'{"texts": "\\ud800 ___"}', b'{"texts": null}', b'{"texts": []}', b'{"texts": [1]}', b'{"texts": {"a": 1}}',
        b'{"texts": "a ___", "top": "5"}', b'{"texts": "a ___", "top": 1.5}', b'{"texts": "a ___", "top": true}',
    ],
    ids=lambda body: body[:20].decode("latin-1"),
)  # fmt: skip
def test_bodies_that_say_nothing(client, body):
    refused(client.post("/fill", content=body, headers=JSON))


def test_text_with_nul_bytes_is_text(client):
    assert client.post("/fill", json={"texts": "the \x00 ___ \x00 sat", "allow_unknown": True}).status_code in (
        200,
        400,
    )
    assert client.post("/score", json={"texts": "\x00" * 50}).status_code in (200, 400)


@pytest.mark.parametrize(
    "text",
    ["___ " * 5_000, "a" * 19_000 + " ___", "[MASK]" * 3_000, "___{9999999}", "___{0}", "___{9-1}", "___{x}",
     "___{1-9} ___{1-9} ___{1-9} ___{1-9}"],
    ids=lambda text: text[:20],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/fill", "/generate", "/fill-mask"])
def test_more_blanks_than_any_model_holds(client, path, text):
    refused(client.post(path, json={"inputs" if path == "/fill-mask" else "texts": text}))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [(path, body, field) for path, body, names in [
        ("/fill", {"texts": "a ___"}, "top beam samples seed"),
        ("/generate", {"texts": "a ___"}, "length steps block speculate top_k samples seed"),
        ("/translate", {"texts": "a"}, "steps lengths block repair seed"),
        ("/score", {"texts": "a"}, "samples stride seed"),
        ("/joint", {"text": "a ___ ___"}, "top cells seed"),
        ("/tokens", {"text": "a"}, "position top"),
        ("/v1/completions", {"prompt": "a"}, "max_tokens n seed logprobs steps"),
        ("/fill-mask", {"inputs": "a ___"}, "top_k"),
    ] for field in names.split()],
)  # fmt: skip
def test_numbers_that_do_not_fit(client, path, body, field):
    for number in HUGE:
        said = {"parameters": {field: number}} if path == "/fill-mask" else {field: number}
        refused(client.post(path, json={**body, **said}))


def test_a_joint_and_a_token_need_something_to_be_about(client):
    for text in ("no blank", "one ___", "___ ___ ___", "___ ___", ""):
        refused(client.post("/joint", json={"text": text}))
    refused(client.post("/tokens", json={"text": ""}))
    refused(client.post("/tokens", json={}))
    refused(client.post("/tokens", json={"ids": [-1], "position": 0}))


def test_ten_thousand_blanks(client):
    refused(client.post("/fill", json={"texts": "___ " * 10_000}))
    refused(client.post("/fill", json={"texts": ["___ " * 100] * 100}))


def test_too_many_texts_and_too_long_ones(client):
    refused(client.post("/fill", json={"texts": ["a ___"] * 1000}))
    refused(client.post("/score", json={"texts": "a" * 30_000}))
    refused(client.post("/tokens", json={"ids": [5] * 100, "position": 1}))


def test_a_hundred_megabytes(client):
    """With its length said beforehand, and in chunks that do not say it."""
    part = b"x" * 2**20
    assert "larger than" in refused(client.post("/fill", content=part * 100, headers=JSON))

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield part

    assert "larger than" in refused(client.post("/fill", content=chunks(), headers=JSON))
    assert client.post("/fill", json={"texts": "a ___"}).status_code == 200


@pytest.mark.parametrize("path", ["/fill", "/nothing", "/v1/chat/completions", "/%00", "/" + "a" * 5000])
def test_other_methods_and_paths(client, path):
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        assert client.request(method, path).status_code in (404, 405)


def test_an_address_says_how_it_is_asked(client):
    for method, path, status, said in (
        ("GET", "/fill", 405, "this endpoint is asked with POST;"),
        ("PUT", "/health", 405, "this endpoint is asked with GET;"),
        ("POST", "/nothing", 404, "there is nothing at this address; /docs lists what there is"),
        ("POST", "/v1/chat/completions", 404, "does not chat: /v1/completions"),
    ):
        answer = client.request(method, path)
        assert answer.status_code == status
        assert said in answer.json()["error"]["message"]
        assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"texts": []}, "texts: list should have at least 1 item"),
        ({"texts": 5}, "texts: input should be a valid string or input should be a valid list"),
        ({"texts": ["a ___", 5]}, "texts.1: input should be a valid string;"),
        ({"texts": "a ___", "topp": 3}, "topp: there is no such field"),
        ({}, "texts: this field must be given"),
        ([], "the body: send an object"),
    ],
)
def test_what_is_wrong_with_a_field_is_said_plainly(client, body, said):
    assert refused(client.post("/fill", json=body)).startswith(said)


def test_too_many_tokens_name_the_field_that_says_so(client):
    assert refused(client.post("/v1/completions", json={"prompt": "a", "max_tokens": 500})).endswith("lower max_tokens")


def test_a_body_that_is_no_json_by_its_type(client):
    said = json.dumps({"texts": "a ___"}).encode()
    for kind in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded"):
        answer = client.post("/fill", content=said, headers={"Content-Type": kind})
        assert "Content-Type: application/json" in refused(answer)
