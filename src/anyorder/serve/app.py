"""The application: endpoints, the engine behind them, and the page in front."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from anyorder.serve import openai, own, refusals
from anyorder.serve.engine import Engine
from anyorder.serve.options import ServeOptions
from anyorder.serve.turns import Pace
from anyorder.serve.work import Worker
from anyorder.tasks.lm import MaskedLM

PAGE = Path(__file__).parent / "page"


def make_app(lm: MaskedLM, settings: ServeOptions = ServeOptions()) -> FastAPI:
    """The application that serves ``lm``."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pace = Pace()
        app.state.engine = Engine(Worker(lm, pace), pace, most_waiting=settings.queue)
        yield
        app.state.engine.close(settings.drain)

    app = FastAPI(title="anyorder", version="1", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.lm, app.state.settings = lm, settings
    refusals.install(app)

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
        }

    app.include_router(own.routes())
    app.include_router(openai.routes())
    if (PAGE / "index.html").exists():
        app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app
