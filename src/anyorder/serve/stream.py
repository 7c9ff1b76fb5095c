"""Answers: whole, or as server-sent events; either way a client that goes away ends its work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

from anyorder.errors import AnyorderError
from anyorder.serve.jobs import Job, Refused
from anyorder.serve.refusals import GONE, sentence
from anyorder.stats import to_json

DONE = "data: [DONE]\n\n"
Told = Callable[[str, Any], Iterable[dict[str, Any]]]


async def answer(request: Request, job: Job) -> Any:
    """The answer of a job, unless its client goes away first."""
    request.app.state.engine.submit(job)
    ready = asyncio.ensure_future(job.answer())
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({ready, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise Refused(GONE, "the client went away")
        return to_json(ready.result())
    finally:
        for task in (ready, gone):
            task.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def events(request: Request, job: Job, told: Told | None = None, *, done: bool = True) -> StreamingResponse:
    """Server-sent events: all that a job tells.

    Args:
        request: The request.
        job: What is watched.
        told: Makes the messages of what the job tells, ("event", …) and ("end", answer); as they are, if None.
        done: Whether ``data: [DONE]`` comes last.
    """
    request.app.state.engine.submit(job)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_messages(job, told or _as_told, done), media_type="text/event-stream", headers=headers)


def _as_told(what: str, value: Any) -> Iterable[dict[str, Any]]:
    return [value] if what == "event" else []


async def _messages(job: Job, told: Told, done: bool) -> AsyncIterator[str]:
    try:
        async for what, value in job.events():
            for message in told(what, value):
                yield f"data: {json.dumps(to_json(message), ensure_ascii=False, allow_nan=False)}\n\n"
    except (AnyorderError, Refused) as error:
        yield f"data: {json.dumps({'type': 'error', **sentence(error)})}\n\n"
    finally:
        job.over = True
    if done:
        yield DONE
