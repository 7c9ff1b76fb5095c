"""What OpenAI's clients ask for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request


def routes() -> APIRouter:
    """Their router."""
    router = APIRouter(tags=["OpenAI"])

    @router.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        """The one model there is."""
        name = request.app.state.lm.name
        return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "anyorder"}]}

    return router
