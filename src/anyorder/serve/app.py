"""The application: endpoints, the engine behind them, and the page in front."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware

from anyorder.serve import fill_mask, infill, openai, own, refusals, site
from anyorder.serve.docs_page import docs_page
from anyorder.serve.engine import Engine
from anyorder.serve.guard import Guard
from anyorder.serve.metrics import Counted, Metrics
from anyorder.serve.options import ServeOptions
from anyorder.serve.turns import Pace
from anyorder.serve.work import Worker
from anyorder.tasks.lm import MaskedLM


def make_app(lm: MaskedLM, settings: ServeOptions = ServeOptions()) -> FastAPI:
    """The application that serves ``lm``."""
    if Path(lm.name).is_dir():
        lm = replace(lm, name=Path(lm.name).resolve().name)  # no answer names a path of this machine
    pace = Pace()
    metrics = Metrics(lambda: engine.waiting)
    worker = Worker(lm, pace, metrics)
    engine = Engine(worker, pace, most_waiting=settings.queue)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.speed.measured(await run_in_threadpool(worker.warm))
        engine.start()
        yield
        await run_in_threadpool(engine.close, settings.drain)

    app = FastAPI(
        title="anyorder", version="1", docs_url=None, redoc_url=None, lifespan=lifespan, responses=refusals.DOCUMENTED
    )
    app.state.lm, app.state.settings, app.state.engine, app.state.metrics = lm, settings, engine, metrics
    refusals.install(app)
    # The last one added is the first to see a request. CORS stands before the guard, so that the pages of the origin
    # that is named can read why they were refused, and when to come back.
    app.add_middleware(Guard, settings=settings)
    if settings.cors is not None:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[settings.cors],
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["Retry-After"],
        )
    app.add_middleware(Counted, metrics=metrics)
    _about(app)
    for part in (own, openai, infill, fill_mask):
        app.include_router(part.routes())
    site.install(app)
    return app


def _about(app: FastAPI) -> None:
    """Endpoints about the server itself."""
    lm: MaskedLM = app.state.lm

    @app.head("/health", include_in_schema=False)
    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Whether the server answers, and what of."""
        return {
            "status": "ok",
            "model": lm.name,
            "max_length": lm.max_length,
            "vocab_size": lm.conditionals.vocab_size,
            "mask_token": str(lm.tokenizer.mask_token),
            "waiting": app.state.engine.waiting,
            "running": app.state.engine.running,
        }

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """What the server counts, for Prometheus."""
        return PlainTextResponse(app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> str:
        return docs_page(app.openapi())
