"""A request as the engine sees it: what is wanted, what it may share a batch with, and where its answers go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyorder.options import Options


class Refused(Exception):
    """A request that is not answered: the status, one sentence, and when to try again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


LATE = "the request took longer than the server allows: ask for fewer or shorter texts, or fewer steps"


@dataclass(eq=False)
class Job:
    """One request.

    Attributes:
        kind: which work, see :class:`anyorder.serve.work.Worker`.
        texts: what it is about.
        options: how; jobs of one kind whose ``key`` is equal may share a batch.
        key: what must be equal for that.
        cost: about how many tokens will go through the model.
        seconds: how long it may take, waiting included.
        heavy: whether it holds tables over pairs of tokens, hundreds of megabytes; such go one after the other.
        watched: whether events are wanted as the work goes on.
        single: whether the client sent one text, not a list.
        extra: what only this kind of work knows.
    """

    kind: str
    texts: Sequence[str | None]
    options: Options
    key: Hashable
    cost: float
    seconds: float
    heavy: bool = False
    watched: bool = False
    single: bool = True
    extra: dict[str, Any] = field(default_factory=dict)
    born: float = field(default_factory=time.monotonic)
    over: bool = False  # answered, failed, or its client has gone

    def __post_init__(self) -> None:
        hash(self.key)  # here, where it fails one request only
        self._events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    @property
    def late(self) -> bool:
        """Whether it took longer than it may."""
        return time.monotonic() > self.born + self.seconds

    # From the thread that works:

    def tell(self, event: dict[str, Any]) -> None:
        """Something happened."""
        if self.watched:
            self._put("event", event)

    def end(self, answer: Any) -> None:
        """It is finished."""
        if not self.over:
            self.over = True
            self._put("end", answer)

    def fail(self, error: BaseException) -> None:
        """It came to nothing."""
        if not self.over:
            self.over = True
            self._put("error", error)

    def _put(self, what: str, value: Any) -> None:
        self._loop.call_soon_threadsafe(self._events.put_nowait, (what, value))

    # From the loop that serves:

    async def events(self) -> AsyncIterator[tuple[str, Any]]:
        """What is told, ("event", …), and at last ("end", answer); an error is raised."""
        try:
            while True:
                what, value = await self._events.get()
                if what == "error":
                    raise value
                yield what, value
                if what == "end":
                    return
        finally:
            self.over = True  # whoever stops listening wants no more work done

    async def answer(self) -> Any:
        """The answer, or its error raised."""
        async for what, value in self.events():
            if what == "end":
                return value
        raise AssertionError("a job ends")  # pragma: no cover
