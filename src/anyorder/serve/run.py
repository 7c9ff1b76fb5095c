"""Run the server until it is told to stop."""

from __future__ import annotations

import asyncio
import math
import socket

import uvicorn
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from anyorder.errors import AnyorderError
from anyorder.serve.app import make_app
from anyorder.serve.engine import Engine
from anyorder.serve.options import ServeOptions
from anyorder.tasks.lm import MaskedLM

ANSWERING = 5  # seconds for the last answers to get out


def serve(lm: MaskedLM, settings: ServeOptions) -> None:
    """Listen, say where, answer until SIGTERM or Ctrl-C, and finish what was begun."""
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    server = Server(make_app(lm, settings))
    print(f"anyorder: {lm.name} at http://{shown}:{port} (Ctrl-C ends it)", flush=True)
    server.run(sockets=[listener])


class Server(uvicorn.Server):
    """uvicorn's, which answers what it cannot finish in time before it closes the connections."""

    def __init__(self, app: FastAPI) -> None:
        self._engine: Engine = app.state.engine
        self._drain: float = app.state.settings.drain
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=math.ceil(self._drain) + ANSWERING,
        )
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, finish what was begun; what is left when the time is over is told so."""
        closing = asyncio.create_task(run_in_threadpool(self._engine.close, self._drain))
        await super().shutdown(sockets)
        await closing


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError as error:
        raise AnyorderError(
            f"cannot listen at {host}:{port} ({error.strerror or error}): choose another --port or --host"
        ) from None
    return listener
