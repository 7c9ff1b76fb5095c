"""The server as a process: a client that is killed, and SIGTERM in the middle of work."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import httpx
import pytest

from warm import ended, started

WAIT = 60.0
LONG = {"texts": "the ___ sat on the ___", "sampler": "gibbs", "steps": 4000, "stream": True}
READER = """
import json, sys, urllib.request
body = json.dumps({body!r}).encode()
request = urllib.request.Request({url!r}, body, {{"Content-Type": "application/json"}})
for line in urllib.request.urlopen(request):
    print(line, flush=True)
"""


def eventually(true: Callable[[], Any], seconds: float = WAIT) -> None:
    start = time.monotonic()
    while not true():
        assert time.monotonic() < start + seconds
        time.sleep(0.02)


@pytest.fixture(scope="module")
def process(tiny_checkpoint: Path, tmp_path_factory: Any) -> Iterator[tuple[ForkServerProcess, httpx.Client]]:
    said = tmp_path_factory.mktemp("said") / "said.txt"
    server = started("serve", "--model", tiny_checkpoint, "--port", 0, "--drain", 60, said=said)
    try:
        # A busy machine may take minutes to import what the server needs.
        there = re.compile(r"http://\S+\s")
        eventually(lambda: not server.is_alive() or (said.exists() and there.search(said.read_text())), seconds=600)
        found = re.search(r"http://\S+", said.read_text())
        assert found is not None, said.read_text()
        with httpx.Client(base_url=found[0], timeout=WAIT, trust_env=False) as client:
            yield server, client
    finally:
        server.kill()
        server.join(WAIT)


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
        server.terminate()
        answers = [one.result(WAIT) for one in asked]
    assert [one.status_code for one in answers] == [200, 200]
    assert ended(server, WAIT) in (0, -signal.SIGTERM)
    with pytest.raises(httpx.ConnectError):
        client.get("/health")
