"""The server on this machine: how soon it answers, what a crowd gains, and whether it holds under mixed load.

python benchmarks/bench_serve.py [--quick] [--json] [--seconds 60] [--model NAME]

The server is a process of its own; clients are threads of this one and share its cores. Times are given over what
they are allowed to be. The mixed load keeps more clients at it than the queue holds, for ``--seconds`` (600 for the
ten minutes of docs/serving.md): no answer but 200 and 429, none lost, and the most memory that the server takes in the
last quarter of the time within a tenth of the most in the second.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil
from common import Ratio, machine, parser, ratio, show

CLIENTS = 32
WORDS = ("man", "woman", "child", "king", "queen", "dog", "door", "house", "river", "garden", "book", "window", "road")
TEXT = "The old {} opened the ___ and walked into the ___."


class Client:
    """One connection, kept open."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("http://").split(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=120)

    def post(self, path: str, body: dict[str, object]) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", path, json.dumps(body), headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def started(model: str | None) -> tuple[subprocess.Popen[str], str, float]:
    """A server, its address, and the seconds to its first answer."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "anyorder", "serve", "--port", "0", *(["--model", model] if model else [])]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = re.search(r"http://\S+", server.stdout.readline())
    assert found is not None, "the server did not start"
    assert Client(found[0]).post("/fill", {"texts": TEXT.format("man")})[0] == 200
    return server, found[0], time.perf_counter() - start


def cpu(server: subprocess.Popen[str]) -> float:
    """Seconds of CPU that the server has taken."""
    return sum(psutil.Process(server.pid).cpu_times()[:2])


def timed(address: str, clients: int, requests: int) -> tuple[float, list[float]]:
    """Seconds of all requests by so many clients at once, and of each."""
    barrier = threading.Barrier(clients)

    def one(number: int) -> list[float]:
        client, draw, each = Client(address), random.Random(number), []
        barrier.wait()
        for _ in range(requests // clients):
            start = time.perf_counter()
            while (status := client.post("/fill", {"texts": TEXT.format(draw.choice(WORDS))})[0]) == 429:
                time.sleep(0.1)  # a server that is starved of processors refuses; the wait counts
            each.append(time.perf_counter() - start)
            assert status == 200, status
        return each

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        each = [seconds for several in pool.map(one, range(clients)) for seconds in several]
    return time.perf_counter() - start, each


MIX: list[Callable[[random.Random], tuple[str, dict[str, object]]]] = [
    lambda draw: ("/fill", {"texts": TEXT.format(draw.choice(WORDS))}),
    lambda draw: ("/fill", {"texts": [f"The {w} {'___ ' * draw.randint(1, 4)}." for w in draw.sample(WORDS, 3)]}),
    lambda draw: ("/generate", {"begin": f"The {draw.choice(WORDS)}", "length": draw.randint(8, 64), "stream": True}),
    lambda draw: ("/generate", {"length": 32, "sampler": "parallel", "steps": draw.randint(2, 8), "canvas": True}),
    lambda draw: ("/score", {"texts": " ".join(draw.choices(WORDS, k=draw.randint(3, 40))), "method": "pll"}),
    lambda draw: ("/joint", {"text": f"The {draw.choice(WORDS)} ___ the ___.", "tail": 0.2}),
    lambda draw: ("/v1/completions", {"prompt": draw.choice(WORDS), "suffix": "again.", "max_tokens": 12}),
    lambda draw: ("/fill-mask", {"inputs": f"The {draw.choice(WORDS)} ___ here."}),
]


def mixed(address: str, server: subprocess.Popen[str], clients: int, seconds: float) -> tuple[Counter[int], list[int]]:
    """Statuses of all answers (0: none came), and the server's memory, ten times a minute or more."""
    end = time.monotonic() + seconds

    def one(number: int) -> Counter[int]:
        client, draw, seen = Client(address), random.Random(number), Counter[int]()
        while time.monotonic() < end:
            path, body = draw.choice(MIX)(draw)
            status = 0
            try:
                status, text = client.post(path, body)
                lost = status == 200 and body.get("stream") and not text.endswith(b"[DONE]\n\n")
                status = 0 if lost or b'"type": "error"' in text else status
            except (OSError, http.client.HTTPException):
                client = Client(address)
            seen[status] += 1
            if status == 429:
                time.sleep(0.5)
        return seen

    memory, process = [], psutil.Process(server.pid)
    with ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(one, number) for number in range(clients)]
        while time.monotonic() < end:
            time.sleep(min(5.0, seconds / 40))
            memory.append(process.memory_info().rss)
        total = sum((one.result() for one in asked), Counter[int]())
    return total, memory


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=60, help="of mixed load")
    options.add_argument("--model", help="a folder or a name; the bundled model if absent")
    arguments = options.parse_args()
    count = 64 if arguments.quick else 320
    repeats = 1 if arguments.quick else min(3, arguments.repeats)
    server, address, first = started(arguments.model)
    first_cpu = cpu(server)
    try:
        timed(address, CLIENTS, count)  # warm
        alone, crowd, one_each, each = [], [], [], []
        spent = spent_crowd = 0.0
        for _ in range(repeats):
            before = cpu(server)
            seconds, waits = timed(address, 1, count // 4)
            spent += cpu(server) - before
            alone.append(4 * seconds)
            one_each += waits
            before = cpu(server)
            seconds, waits = timed(address, CLIENTS, count)
            spent_crowd += cpu(server) - before
            crowd.append(seconds)
            each += waits
        p50, p99 = statistics.median(one_each), statistics.quantiles(each, n=100)[98]
        ratios = [
            Ratio("start to first answer over 4 s", *[first / 4] * 3, 1, at_most=True),
            Ratio("fill of two blanks, one client, median over 60 ms", *[p50 / 0.06] * 3, 1, at_most=True),
            ratio(f"{count} fills, one after the other over {CLIENTS} clients at once", alone, crowd, 3),
            Ratio(f"fill of two blanks, {CLIENTS} clients, p99 over 2 s", *[p99 / 2] * 3, 1, at_most=True),
        ]
        seconds = 5 if arguments.quick else arguments.seconds
        statuses, memory = mixed(address, server, 80, seconds)
        quarter = len(memory) // 4
        grown = max(memory[-quarter:]) / max(memory[quarter : 2 * quarter])
        ratios.append(
            Ratio(f"{seconds:.0f} s of mixed load: memory, last quarter over second", *[grown] * 3, 1.1, at_most=True)
        )
        lost = sum(n for status, n in statuses.items() if status not in (200, 429))
        ratios.append(Ratio("… answers other than 200 and 429, or none", *[float(lost)] * 3, 0, at_most=True))
    finally:
        server.terminate()
        server.wait(60)
    told = {str(status): n for status, n in sorted(statuses.items())}
    settings = machine() | {"omp": os.environ.get("OMP_NUM_THREADS", "unset"), "answers": told}
    settings |= {"start_s": round(first, 1), "start_cpu_s": round(first_cpu, 1)}
    settings |= {"cpu_ms_per_fill_alone": round(1000 * spent / len(one_each), 1)}
    settings |= {"cpu_ms_per_fill_in_a_crowd": round(1000 * spent_crowd / len(each), 1)}
    settings |= {"p50_ms": round(1000 * p50), "p99_ms": round(1000 * p99)}
    settings |= {"memory_mb": [round(max(memory[i * quarter : (i + 1) * quarter]) / 2**20) for i in range(4)]}
    show(ratios, settings, arguments.json)


if __name__ == "__main__":
    main()
