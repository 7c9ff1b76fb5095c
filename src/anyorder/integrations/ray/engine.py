"""The engine behind ``--engine ray``: windows go to workers, answers come back in the order of the windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from anyorder.errors import AnyorderError
from anyorder.integrations.ray.cluster import RETRIES, answer_of, connected, library, share
from anyorder.integrations.ray.worker import Job, Worker
from anyorder.show.answers import Answers

# Windows per worker that may be answered before the first of them is written: what one of long texts may hold up.
# Simulated with 100 workers and uneven windows: 4 keep them busy 36 % of the time, 16 keep 79 %, 64 keep 85 %
# (benchmarks/scale.py); 16 are about a megabyte.
AHEAD = 16
CALLS = 2  # windows a worker has at hand, so that it never waits for the next


class _Texts(Protocol):
    @property
    def texts(self) -> list[str]: ...
    @property
    def first(self) -> int: ...


W = TypeVar("W", bound=_Texts)


class Pool:
    """Workers that answer windows; an engine of the commands."""

    def __init__(self, job: Job, workers: int | None) -> None:
        ray = library()
        count, needs = share(workers, job.load.device)
        # A worker that dies is started again, and what it had at hand is answered again: that changes no answer.
        made = ray.remote(max_restarts=-1, max_task_retries=RETRIES, **needs)(Worker)
        self._workers = [made.remote(job) for _ in range(count)]
        self._free: dict[int, int] = {}  # how many more windows each worker that has started takes
        self._starting = {worker.ready.remote(): number for number, worker in enumerate(self._workers)}
        self.model = self._started(ray.wait(list(self._starting), num_returns=1)[0][0])

    def _started(self, ready: Any) -> str:
        """One more worker has begun; the name of its model."""
        name, refused = answer_of(ready, "to start")
        if refused is not None:
            raise AnyorderError(refused)
        self._free[self._starting.pop(ready)] = CALLS
        return str(name)

    def close(self) -> None:
        """Send the workers home, in a cluster that goes on without them."""
        for worker in self._workers:
            library().kill(worker)

    def answers(self, windows: Iterable[W]) -> Iterator[tuple[W, Answers]]:
        """Every window with its answers, in the order of the windows."""
        ray = library()
        rest = iter(windows)
        order: deque[tuple[W, Any]] = deque()  # what was handed out and not yet given back
        at: dict[Any, int] = {}  # which worker has which call
        while True:
            while len(order) < AHEAD * len(self._workers) and (least := max(self._free.values())) > 0:
                window = next(rest, None)
                if window is None:
                    break
                number = next(n for n, free in self._free.items() if free == least)
                call = self._workers[number].answer.remote(window.texts, window.first)
                self._free[number] -= 1
                at[call] = number
                order.append((window, call))
            if not order:
                return
            for call in ray.wait([*at, *self._starting], num_returns=1)[0]:
                if call in self._starting:
                    self._started(call)
                else:
                    self._free[at.pop(call)] += 1
            while order and order[0][1] not in at:
                window, call = order.popleft()
                answers = answer_of(call, f"on texts {window.first} to {window.first + len(window.texts) - 1}")
                if isinstance(answers, str):
                    raise AnyorderError(answers)
                yield window, answers


@contextmanager
def pool(job: Job, address: str | None = None, workers: int | None = None) -> Iterator[Pool]:
    """Workers for a job: on the cluster at ``address``, or on this machine, where Ray starts and ends with them."""
    if job.model is not None and Path(job.model).exists():
        job = replace(job, model=str(Path(job.model).resolve()))  # a worker may stand in another folder
    with connected(address, workers):
        made = Pool(job, workers)
        try:
            yield made
        finally:
            made.close()
