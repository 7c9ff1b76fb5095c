"""What stands before every endpoint: who may ask, how much, and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers, MutableHeaders

from anyorder.serve.options import ServeOptions
from anyorder.serve.refusals import refuse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_OPEN = ("/v1/", "/metrics")  # what is asked with GET and yet needs the key
READING = 15.0  # seconds for a body to arrive


class Guard:
    """Refuses what must not reach an endpoint; a pure ASGI middleware, so that streams pass as they come."""

    def __init__(self, app: App, settings: ServeOptions) -> None:
        self._app = app
        self._settings = settings
        self._key = settings.key()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            body = await self._body(receive)
            if isinstance(body, bytes):
                await self._app(scope, _again(body, receive), with_headers)
                return
            refusal = body
        status, message = refusal
        if status == 413:
            await _drain(receive)
        await refuse(message, status)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """(status, sentence) if the request may not pass."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        # A page elsewhere can point a name of its own at this machine; it cannot know the key.
        if self._key is None and self._settings.local and _name(host) not in _LOCAL:
            return 403, "the server listens on this machine only: ask it as localhost"
        origin = headers.get("origin")
        if origin not in (None, self._settings.cors, f"http://{host}", f"https://{host}"):
            return 403, "pages of another origin may not ask: start the server with --cors and that origin"
        # A preflight asks without its key.
        needs = scope["method"] not in ("GET", "HEAD", "OPTIONS") or scope["path"].startswith(_OPEN)
        if self._key is not None and needs and not self._knows(headers.get("authorization", "")):
            return 401, "a key is needed: send it as Authorization: Bearer KEY"
        if int(_digits(headers.get("content-length", "0"))) > self._settings.body:
            return 413, f"the body is larger than {self._settings.body:,} bytes: send less"
        return None

    def _knows(self, header: str) -> bool:
        kind, _, key = header.partition(" ")
        mine = (self._key or "").encode()
        return kind.lower() == "bearer" and hmac.compare_digest(key.strip().encode(), mine)

    async def _body(self, receive: Receive) -> bytes | tuple[int, str]:
        """The whole body, or why it is refused."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(READING):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return 400, "the body ended early"
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._settings.body:
                        return 413, f"the body is larger than {self._settings.body:,} bytes: send less"
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return 408, f"the body did not arrive within {READING:.0f} seconds: send it again"


async def _drain(receive: Receive) -> None:
    """Read the rest and forget it: a client that is still sending does not read why it was refused."""
    with suppress(TimeoutError):
        async with asyncio.timeout(READING):
            while (await receive()).get("more_body"):
                pass


def _again(body: bytes, receive: Receive) -> Receive:
    """``receive`` with the body that was read already, once."""
    read = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _name(host: str) -> str:
    """A host without its port."""
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]


def _digits(length: str) -> str:
    return length[:15] if length.isascii() and length.isdigit() else "0"
