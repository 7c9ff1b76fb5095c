"""Errors as answers: a status and one sentence, in OpenAI's form, and nothing about the inside of the server."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from anyorder.errors import AnyorderError
from anyorder.serve.jobs import Refused

GONE = 499  # nobody reads it; nginx's number in its log
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
DOCUMENTED: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "What is wrong with the request, in a sentence."},
    "5XX": {"description": "The server is stopping (503), or the request took too long (504)."},
}
_FLAG = re.compile(r"--([a-z][a-z-]*)")


def sentence(error: Exception | str, status: int = 400) -> dict[str, Any]:
    """The body of an error; options are named as a body names them."""
    message = _FLAG.sub(lambda flag: _named(flag[1]), str(error))
    status = error.status if isinstance(error, Refused) else status
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _named(flag: str) -> str:
    return "whole_words: false" if flag == "any-pieces" else flag.replace("-", "_")


def refuse(error: Exception | str, status: int = 400, retry_after: int | None = None) -> JSONResponse:
    """An error as an answer."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(sentence(error, status), status, headers)


def install(app: FastAPI) -> None:
    """Let every error of an endpoint become such an answer."""

    @app.exception_handler(AnyorderError)
    async def ours(request: Request, error: AnyorderError) -> JSONResponse:
        return refuse(error)

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return refuse(error, error.status, error.retry_after)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return refuse(said(error))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        return refuse(str(error.detail), error.status_code)

    @app.exception_handler(Exception)
    async def other(request: Request, error: Exception) -> JSONResponse:
        return refuse("something went wrong in the server; its log says what", 500)


def said(error: RequestValidationError) -> str:
    """The first thing that is wrong with a body, in a sentence."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return 'the body is not JSON: send an object such as {"texts": "The ___ sat."}'
    where = ".".join(str(part) for part in first["loc"] if part != "body")[:80]
    name = f"{where}: " if where else "the body: "
    wrong = first["msg"][0].lower() + first["msg"][1:]
    return f"{name}{wrong[:300]}; /docs says what may be sent"
