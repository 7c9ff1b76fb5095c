"""Run the server until it is told to stop."""

from __future__ import annotations

import socket

import uvicorn

from anyorder.errors import AnyorderError
from anyorder.serve.app import make_app
from anyorder.serve.options import ServeOptions
from anyorder.tasks.lm import MaskedLM


def serve(lm: MaskedLM, settings: ServeOptions) -> None:
    """Listen, say where, answer until SIGTERM or Ctrl-C, and finish what was begun."""
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        make_app(lm, settings),
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=int(settings.drain) + 1,
    )
    print(f"anyorder: {lm.name} at http://{shown}:{port} (Ctrl-C ends it)", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


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
