"""The server as a process: a client that is killed, and SIGTERM in the middle of work."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

WAIT = 60.0
LONG = {"texts": "the ___ sat on the ___", "sampler": "gibbs", "steps": 4000, "stream": True}
READER = """
import json, sys, urllib.request
body = json.dumps({body!r}).encode()
request = urllib.request.Request({url!r}, body, {{"Content-Type": "application/json"}})
for line in urllib.request.urlopen(request):
    print(line, flush=True)
"""


def eventually(true: Callable[[], Any]) -> None:
    start = time.monotonic()
    while not true():
        assert time.monotonic() < start + WAIT
        time.sleep(0.02)


@pytest.fixture(scope="module")
def process(tiny_checkpoint: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    command = [
        sys.executable,
        "-m",
        "anyorder",
        "serve",
        "--model",
        str(tiny_checkpoint),
        "--port",
        "0",
        "--drain",
        "60",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert server.stdout is not None
    found = re.search(r"http://\S+", server.stdout.readline())
    assert found is not None
    try:
        with httpx.Client(base_url=found[0], timeout=WAIT, trust_env=False) as client:
            yield server, client
    finally:
        server.kill()
        server.wait(WAIT)


def test_a_client_that_is_killed_ends_its_work(process):
    _, client = process
    reader = READER.format(body=LONG, url=f"{client.base_url}/generate")
    victim = subprocess.Popen([sys.executable, "-c", reader], stdout=subprocess.PIPE)
    assert victim.stdout is not None
    assert b"start" in victim.stdout.readline()
    assert client.get("/health").json()["running"] == 1
    victim.send_signal(signal.SIGKILL)
    victim.wait(WAIT)
    eventually(lambda: client.get("/health").json()["running"] == 0)
    assert client.post("/fill", json={"texts": "a ___"}).status_code == 200


def test_sigterm_finishes_what_was_begun(process):
    server, client = process
    body = {"texts": "the ___ sat", "sampler": "gibbs", "steps": 60}
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(client.post, "/generate", json={**body, "seed": seed}) for seed in range(2)]
        eventually(lambda: client.get("/health").json()["running"])
        server.send_signal(signal.SIGTERM)
        answers = [one.result(WAIT) for one in asked]
    assert [one.status_code for one in answers] == [200, 200]
    assert server.wait(WAIT) in (0, -signal.SIGTERM)
    with pytest.raises(httpx.ConnectError):
        client.get("/health")
