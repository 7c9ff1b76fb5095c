"""What `--engine ray` does with 1, 10, 100 and 1000 workers: a simulation of the engine from measured costs.

python benchmarks/scale.py [--measure] [--rows 1e9] [--json]

The simulation follows `anyorder/integrations/ray/engine.py` event by event: one driver that hands out windows of 256
texts and writes answers in their order, and workers that start late and hold two windows each. Costs are CPU seconds of
one thread, measured here with --measure, else those of MEASURED. The network is not simulated, only counted.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import machine, parser

from anyorder.integrations.ray.engine import AHEAD, CALLS
from anyorder.integrations.ray.worker import WINDOW

WORKERS = (1, 10, 100, 1000)
PRICE = 0.04  # dollars per core and hour, a usual price of a rented one


@dataclass(frozen=True)
class Costs:
    """Seconds of one thread; bytes.

    Attributes:
        row: of answering a text: `score --method bound --samples 4`, the bundled model.
        spread: of a window's cost around its mean, relative, in a file of such sentences.
        start: of a worker, until it has read its model.
        hand_out: of the driver, to send a window.
        write: of the driver, to take a window's answers and write them.
        window_bytes: of a window's texts and answers together.
    """

    row: float
    spread: float
    start: float
    hand_out: float
    write: float
    window_bytes: int


# On two cores of an Intel Xeon at 2.8 GHz shared with other work, so rather too much than too little: CPU time of
# `anyorder score` of 1,500 captions of 9 words, 5.5 s of it for its start; 355 calls per second that give back answers.
MEASURED = Costs(row=0.0149, spread=0.026, start=5.5, hand_out=0.0014, write=0.0014, window_bytes=49_000)


def simulate(costs: Costs, workers: int, windows: int, sigma: float, seed: int = 0) -> float:
    """Seconds until the last window is written; window costs are lognormal with mean 256 rows and ``sigma``."""
    draw = random.Random(seed)
    mean = WINDOW * costs.row
    sizes = (mean * math.exp(draw.gauss(-(sigma**2) / 2, sigma)) for _ in range(windows))
    now, left = 0.0, windows
    ends = [costs.start] * workers  # when each worker has done what it holds
    events = [(costs.start, -1, number) for number in range(workers)]  # (when, which window or a start, worker)
    heapq.heapify(events)
    idle = []  # (-free calls, worker): the one with most comes first
    free = [0] * workers
    order: deque[int] = deque()
    done: set[int] = set()
    number = 0
    while left or order:
        while left and idle and len(order) < AHEAD * workers:
            _, worker = heapq.heappop(idle)
            now += costs.hand_out
            ends[worker] = max(ends[worker], now) + next(sizes)
            heapq.heappush(events, (ends[worker], number, worker))
            free[worker] -= 1
            if free[worker]:
                heapq.heappush(idle, (-free[worker], worker))
            order.append(number)
            number, left = number + 1, left - 1
        when, which, worker = heapq.heappop(events)
        now = max(now, when)
        if which < 0:
            free[worker] = CALLS
        else:
            done.add(which)
            free[worker] += 1
        if free[worker] == 1 or which < 0:  # else it is among the idle already, a place too far back at worst
            heapq.heappush(idle, (-free[worker], worker))
        while order and order[0] in done:
            done.discard(order.popleft())
            now += costs.write
    return now


def plan(costs: Costs, rows: float) -> list[dict[str, Any]]:
    """For each number of workers and two corpora: rows per second, what is lost to what, and what ``rows`` take."""
    found = []
    for sigma, corpus in ((costs.spread, "even"), (1.0, "uneven")):
        for workers in WORKERS:
            windows = max(200, 60 * workers)
            seconds = simulate(costs, workers, windows, sigma) - costs.start
            rate = windows * WINDOW / seconds
            ideal = workers / costs.row
            driver = WINDOW / (costs.hand_out + costs.write)
            hours = (rows / rate + costs.start) / 3600
            found.append(
                {
                    "corpus": corpus,
                    "workers": workers,
                    "rows_per_second": rate,
                    "efficiency": rate / ideal,
                    "driver_busy": rate / driver,
                    "megabytes_per_second": rate / WINDOW * costs.window_bytes / 1e6,
                    "start_share_of_a_million_rows": costs.start / (costs.start + 1e6 / rate),
                    "hours": hours,
                    "dollars": hours * workers * PRICE,
                }
            )
    return found


def measure() -> Costs:
    """The costs here, in CPU seconds of one thread."""
    import ray  # a worker imports it, too

    from anyorder.integrations.ray.worker import Job, Worker
    from anyorder.tasks.options import ScoreOptions

    worker = Worker(Job("score", ScoreOptions(method="bound", samples=4)))
    worker.lm()
    start = time.process_time()  # of this process until here: what a worker does before its first window
    from bench_ray import sentences

    texts = sentences(3 * WINDOW)
    worker.answer(texts[:8], 1)
    each = []
    answers: Any = None
    for first in range(0, len(texts), WINDOW):
        begun = time.process_time()
        answers = worker.answer(texts[first : first + WINDOW], first + 1)
        each.append(time.process_time() - begun)
    mean, size = statistics.fmean(each), sum(map(len, texts[:WINDOW])) + sum(map(len, answers.lines))
    of_worker = (mean / WINDOW, statistics.stdev(each) / mean, start)
    print(*of_worker, size, file=sys.stderr)
    return Costs(*of_worker, *_driver(ray, texts[:WINDOW], answers), size)


def _driver(ray: Any, texts: list[str], answers: Any, calls: int = 200) -> tuple[float, float]:
    """Seconds of the driver to send a window, and to take and write its answers."""
    from anyorder.files.journal import Results
    from anyorder.integrations.ray.cluster import connected

    with connected(None, 1), tempfile.TemporaryDirectory() as folder:
        echo = ray.remote(num_cpus=1)(_Echo).remote(answers)
        ray.get(echo.answer.remote(texts, 1))
        results = Results(Path(folder) / "out.jsonl", {})
        begun = time.process_time()
        sent = [echo.answer.remote(texts, 1) for _ in range(calls)]
        handed = time.process_time() - begun
        for call in sent:
            results.write(ray.get(call).lines)
        return handed / calls, (time.process_time() - begun - handed) / calls


class _Echo:
    """A worker that costs nothing: what remains is the driver's."""

    def __init__(self, answers: Any) -> None:
        self.answers = answers

    def answer(self, texts: list[str], first: int) -> Any:
        return self.answers


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--measure", action="store_true", help="Measure the costs here.")
    arguments.add_argument("--rows", type=float, default=1e9)
    said = arguments.parse_args()
    costs = measure() if said.measure else MEASURED
    rows = plan(costs, said.rows)
    if said.json:
        print(json.dumps({"machine": machine(), "costs": asdict(costs), "rows": rows}, indent=2))
        return
    print(costs)
    names = ["corpus", "workers", "rows_per_second", "efficiency", "driver_busy", "megabytes_per_second"]
    names += ["hours", "dollars"]
    print("  ".join(names))
    for row in rows:
        print("  ".join(f"{row[name]:>{len(name)}.4g}" if name != "corpus" else f"{row[name]:6}" for name in names))


if __name__ == "__main__":
    main()
