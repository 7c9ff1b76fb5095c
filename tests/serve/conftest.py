"""A server in this process, over the tiny model, for all tests of a file."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from anyorder.serve.app import make_app
from anyorder.serve.options import ServeOptions
from anyorder.serve.run import Server


@contextmanager
def running(lm: Any, **settings: Any) -> Iterator[tuple[httpx.Client, Any]]:
    """(client, application) of a server that really listens."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = make_app(lm, ServeOptions(**{"drain": 3.0, **settings}))
    server = Server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60, trust_env=False) as client:
        client.get("/health")  # waits until it listens
        yield client, app
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def server(tiny_lm: Any) -> Iterator[tuple[httpx.Client, Any]]:
    with running(tiny_lm) as both:
        yield both


@pytest.fixture(scope="module")
def client(server: tuple[httpx.Client, Any]) -> httpx.Client:
    return server[0]


@pytest.fixture
def serving(tiny_lm: Any) -> Callable[..., Any]:
    """A server with settings of its own: ``with serving(queue=1) as (client, app)``."""
    return lambda **settings: running(settings.pop("lm", tiny_lm), **settings)
