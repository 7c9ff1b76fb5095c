"""Requests that wait for each other, and whether two answers are one."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

WAIT = 20.0  # seconds after which a test has failed


def at_once(client: Any, app: Any, path: str, bodies: list[Any]) -> list[Any]:
    """The answers of requests that all wait before the first is worked on."""
    engine = app.state.engine
    with ThreadPoolExecutor(len(bodies)) as pool:
        with engine._turns:
            asked = [pool.submit(client.post, path, json=body) for body in bodies]
            start = time.monotonic()
            while engine.waiting + engine.running < len(bodies):
                assert time.monotonic() < start + WAIT
                time.sleep(0.005)
        return [one.result() for one in asked]


def close(a: Any, b: Any) -> bool:
    """Equal, but for the last digits of numbers and what is another for each request."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a if k not in ("id", "created"))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    return a == (pytest.approx(b, abs=1e-4) if isinstance(b, float) else b)
