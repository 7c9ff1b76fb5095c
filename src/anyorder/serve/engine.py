"""The engine: requests that wait are put into one batch, and no slow one keeps the others waiting.

A few threads work, one at a time (:class:`Turns`): each has the model for a moment and hands it on. A thread takes the
oldest request that waits and all others that may share its batch. Quick requests that could have joined a batch that
is running wait for it to end, together; slow ones never take the last thread. So a quick request waits for a quick
batch and for a moment of each slow one, however many of those there are.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from anyorder.errors import AnyorderError
from anyorder.serve.jobs import LATE, Job, Refused
from anyorder.serve.turns import Pace, Turns, Watch

logger = logging.getLogger(__name__)

QUICK = 2**14  # tokens through the model, up to which a request counts as quick
THREADS = 4
MOST_TEXTS = 64  # of one batch; more do not make the model faster, but wait for each other

Work = Callable[[Sequence[Job]], None]


class Stopped(Exception):
    """Nobody waits for this work any more."""


class Speed:
    """Seconds that a unit of cost takes, by kind of work, over the last batches of each."""

    def __init__(self) -> None:
        self._first = 0.0
        self._kinds: dict[str, tuple[float, float]] = {}  # (cost, seconds)

    def measured(self, seconds: float) -> None:
        """What a unit took before the first request: it stands for every kind that has not been seen yet."""
        self._first = seconds

    def ended(self, kind: str, cost: float, seconds: float) -> None:
        """A batch of this cost took so long."""
        costs, times = self._kinds.get(kind, (0.0, 0.0))
        self._kinds[kind] = 0.95 * costs + cost, 0.95 * times + seconds

    def seconds(self, jobs: Iterable[Job]) -> float:
        """How long all these will take; 0 where nothing is known."""
        return sum(job.cost * self._unit(job.kind) for job in jobs)

    def _unit(self, kind: str) -> float:
        cost, seconds = self._kinds.get(kind, (0.0, 0.0))
        return seconds / cost if cost else self._first


class Engine:
    """Runs jobs. ``work`` does a batch of one kind: it ends or fails each of its jobs."""

    def __init__(self, work: Work, pace: Pace, *, most_waiting: int = 64) -> None:
        self._work = work
        self._pace = pace
        self._most_waiting = most_waiting
        self._turns = Turns()
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._running: list[list[Job]] = []
        self._closing = False
        self.speed = Speed()
        self._threads = [threading.Thread(target=self._loop, daemon=True) for _ in range(THREADS)]

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Jobs that are being worked on."""
        return sum(map(len, self._running))

    def submit(self, job: Job) -> Job:
        """Put a job into the queue.

        Raises:
            Refused: The queue is full, or the server is stopping.
        """
        with self._changed:
            if self._closing:
                raise Refused(503, "the server is stopping: try again when it is back", retry_after=5)
            self._waiting = [one for one in self._waiting if not one.over]
            if len(self._waiting) >= self._most_waiting:
                raise Refused(429, "too many requests are waiting: try again in a moment", retry_after=1)
            # Better now than after a minute of waiting in vain. A third, for costs are guesses and turns uneven.
            wait = self._wait(job)
            if wait > job.seconds / 3:
                retry = min(30, math.ceil(wait / 2))
                raise Refused(429, "what waits already takes too long: try again in a moment", retry_after=retry)
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    def _wait(self, job: Job) -> float:
        """About how many seconds what is there already will keep ``job`` waiting.

        A quick one waits for the quick ones, with a turn of each slow one between two of theirs. A slow one waits for
        all, and its own work takes twice its time too, for quick ones that come later have every other turn.
        """
        there = [one for one in (*self._waiting, *(one for batch in self._running for one in batch)) if not one.over]
        if job.cost <= QUICK:
            return self.speed.seconds(one for one in there if one.cost <= QUICK) * (1 + self._slow())
        return 2 * self.speed.seconds([*there, job]) if there else 0.0

    def _slow(self) -> int:
        """Batches of slow requests that are running."""
        return sum(batch[0].cost > QUICK for batch in self._running)

    def close(self, timeout: float) -> None:
        """Take no more, finish what is there, and end the threads; what is not finished by then fails."""
        with self._changed:
            if self._closing:
                return  # once is enough
            self._closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._waiting and not self._running, timeout)
            left = [*self._waiting, *(job for batch in self._running for job in batch)]
            self._waiting = []
        for job in left:
            job.fail(Refused(503, "the server is stopping: try again when it is back", retry_after=5))
        for thread in self._threads:
            thread.join(1)

    def _loop(self) -> None:
        while (batch := self._take()) is not None:
            watch = Watch()
            self._pace.set(partial(self._between, batch, watch))
            try:
                with self._turns:
                    self._between(batch, watch)
                    self._work(batch)
                watch.stop()
                with self._changed:
                    self.speed.ended(batch[0].kind, sum(job.cost for job in batch), watch.seconds)
            except Stopped:
                pass
            except AnyorderError as error:
                for job in batch:
                    job.fail(error)
            except Exception:  # a bug costs its own requests, not the thread that serves all others
                logger.exception("a %s request failed", batch[0].kind)
                for job in batch:
                    job.fail(Refused(500, "something went wrong in the server; its log says what"))
            finally:
                self._pace.set(None)
                with self._changed:
                    self._running.remove(batch)
                    self._changed.notify_all()

    def _take(self) -> list[Job] | None:
        """The next batch; None when there will be none."""
        with self._changed:
            while True:
                self._drop()
                batch = self._choose()
                if batch:
                    self._waiting = [job for job in self._waiting if job not in batch]
                    self._running.append(batch)
                    return batch
                if self._closing and not self._waiting:
                    return None
                self._changed.wait(1.0)  # what waits may have become late by then

    def _drop(self) -> None:
        """What waits in vain leaves the queue."""
        for job in self._waiting:
            if job.late:
                job.fail(Refused(504, LATE))
        self._waiting = [job for job in self._waiting if not job.over]

    def _choose(self) -> list[Job]:
        slow = self._slow()
        busy = {(batch[0].kind, batch[0].key) for batch in self._running if batch[0].cost <= QUICK}
        heavy = any(job.heavy for batch in self._running for job in batch)
        for first in self._waiting:
            if first.heavy and heavy:
                continue
            if first.cost > QUICK and slow < THREADS - 1:
                return [first]
            if first.cost <= QUICK and (first.kind, first.key) not in busy:
                batch: list[Job] = []
                texts = 0
                for job in self._waiting:
                    if job.cost <= QUICK and (job.kind, job.key) == (first.kind, first.key):
                        texts += len(job.texts)
                        if batch and texts > MOST_TEXTS:
                            break
                        batch.append(job)
                return batch
        return []

    def _between(self, batch: Sequence[Job], watch: Watch) -> None:
        """Between two pieces of work: stop what nobody waits for or what is late, and let others have their turn."""
        for job in batch:
            if job.late:
                job.fail(Refused(504, LATE))
        if all(job.over for job in batch):
            raise Stopped
        watch.stop()
        self._turns.pass_on()
        watch.start()
