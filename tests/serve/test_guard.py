"""Who may ask, and what no request may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyorder.errors import AnyorderError
from anyorder.serve.options import ServeOptions

KEY = "a-long-secret"


def test_nobody_listens_beyond_this_machine_without_a_key(tmp_path):
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(AnyorderError, match="--api-key-file, or --no-key"):
            ServeOptions(host=host)
        ServeOptions(host=host, no_key=True)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        assert ServeOptions(host=host).local


@pytest.mark.parametrize("text", ["", "short", "two\nlines of it", "é" * 9])
def test_an_unusable_key_is_refused(tmp_path, text):
    (tmp_path / "key").write_text(text)
    with pytest.raises(AnyorderError, match="at least 8 printable characters"):
        ServeOptions(api_key_file=tmp_path / "key").key()
    with pytest.raises(AnyorderError, match="cannot be read"):
        ServeOptions(api_key_file=Path(tmp_path / "none")).key()


def test_with_a_key_only_who_knows_it(serving, tmp_path):
    (tmp_path / "key").write_text(KEY + "\n")
    with serving(api_key_file=tmp_path / "key") as (client, _):
        body = {"texts": "a ___"}
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"Authorization": "Bearer"}):
            answer = client.post("/fill", json=body, headers=header)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        known = {"Authorization": f"Bearer {KEY}"}
        assert client.post("/fill", json=body, headers=known).status_code == 200
        assert client.get("/v1/models").status_code == client.get("/metrics").status_code == 401
        assert client.get("/v1/models", headers=known).status_code == 200
        assert client.get("/health").status_code == 200  # a page must come up before it can ask for the key


def test_pages_of_other_origins_may_not_ask(client):
    body = {"texts": "a ___"}
    here = str(client.base_url).rstrip("/")
    assert client.post("/fill", json=body, headers={"Origin": here}).status_code == 200
    for origin in ("https://evil.example", "null", here + "0"):
        assert client.post("/fill", json=body, headers={"Origin": origin}).status_code == 403
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 403
    assert "access-control-allow-origin" not in client.get("/health", headers={"Origin": here}).headers


def test_an_origin_that_was_named_may(serving):
    origin = "https://good.example"
    with serving(cors=origin) as (client, _):
        asks = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        assert client.options("/fill", headers=asks).headers["access-control-allow-origin"] == origin
        answer = client.post("/fill", json={"texts": "a ___"}, headers={"Origin": origin})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == origin
        evil = client.post("/fill", json={}, headers={"Origin": "https://evil.example"})
        assert evil.status_code == 403
        assert "start the server with --cors" in evil.json()["error"]["message"]
        assert "access-control-allow-origin" not in evil.headers
        # Its pages can read why they are refused, and when to come back.
        large = client.post("/fill", content=b"x" * 2**21, headers={"Origin": origin})
        assert (large.status_code, large.headers["access-control-allow-origin"]) == (413, origin)
        assert large.headers["access-control-expose-headers"] == "Retry-After"
    with pytest.raises(AnyorderError, match="is no origin"):
        ServeOptions(cors="*")


def test_every_answer_has_its_headers_and_tells_nothing_of_the_inside(client, tiny_lm):
    assert "/" in tiny_lm.name  # the model is a folder; its path stays in the server
    for answer in (
        client.get("/health"),
        client.get("/v1/models"),
        client.get("/nothing"),
        client.post("/fill", content=b"{"),
    ):
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
        assert not any(word in answer.text for word in ("Traceback", "site-packages", ".py", "uvicorn", tiny_lm.name))


def test_an_error_inside_is_a_sentence(server, monkeypatch):
    client, app = server

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("/secret/path went wrong")

    monkeypatch.setitem(app.state.engine._work._kinds, "score", broken)
    answer = client.post("/score", json={"texts": "the cat"})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "something went wrong in the server; its log says what"


@pytest.mark.parametrize("field", ["model", "file", "path", "device", "trust_remote_code", "prompt"])
@pytest.mark.parametrize("path", ["/fill", "/generate", "/score"])
def test_no_request_names_a_file_or_a_model(client, path, field):
    answer = client.post(path, json={"texts": "a ___", field: "/etc/passwd"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"{field}: ")


def test_the_page_serves_nothing_beside_itself(client):
    for path in ("/../app.py", "/..%2fapp.py", "/%2e%2e/app.py", "//etc/passwd"):
        assert client.get(path).status_code == 404
