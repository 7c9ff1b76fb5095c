"""What the server counts, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from anyorder.serve.guard import App, Receive, Scope, Send

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The counters of one application, in a registry of their own."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        made: Any = {"registry": self.registry, "namespace": "anyorder"}
        self.requests = Counter("requests", "Answers by endpoint and status.", ("endpoint", "status"), **made)
        self.seconds = Histogram(
            "seconds", "From a request to the end of its answer.", ("endpoint",), buckets=_SECONDS, **made
        )
        self.first = Histogram(
            "first_token_seconds", "From a request to the first token of its generation.", buckets=_SECONDS, **made
        )
        self.batch = Histogram("batch_requests", "Requests of a batch.", ("kind",), buckets=_COUNTS, **made)
        self.tokens = Counter("tokens_committed", "Tokens generated or filled in.", **made)
        self.steps = Histogram("steps_per_text", "Steps of a generation.", buckets=_COUNTS, **made)
        Gauge("queue", "Requests that wait.", **made).set_function(waiting)

    def text(self) -> bytes:
        """In the form that Prometheus reads."""
        return generate_latest(self.registry)


class Counted:
    """Counts every request; a pure ASGI middleware."""

    def __init__(self, app: App, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), "none"

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            # Paths that are no endpoint would each be a line of their own.
            endpoint = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(endpoint, status).inc()
            self._metrics.seconds.labels(endpoint).observe(time.monotonic() - start)
