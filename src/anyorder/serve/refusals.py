"""Errors as answers: a status and one sentence, in OpenAI's form, and nothing about the inside of the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from anyorder.errors import AnyorderError
from anyorder.serve.jobs import Refused
from anyorder.serve.requests import as_a_body_says

GONE = 499  # nobody reads it; nginx's number in its log
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
DOCUMENTED: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "What is wrong with the request, in a sentence."},
    "5XX": {"description": "The server is stopping (503), or the request took too long (504)."},
}
# What pydantic says, in words that need no Python.
_PLAINLY = {
    "extra_forbidden": "there is no such field",
    "missing": "this field must be given",
    "model_attributes_type": "send an object",
}
_OBJECT = 'send an object such as {"texts": "The ___ sat."}'


def sentence(error: Exception | str, status: int = 400) -> dict[str, Any]:
    """The body of an error; options are named as a body names them."""
    message = as_a_body_says(str(error))
    status = error.status if isinstance(error, Refused) else status
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


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
        if "application/json" not in request.headers.get("content-type", "application/json"):
            return refuse(f"the body is not said to be JSON: {_OBJECT} with the header Content-Type: application/json")
        return refuse(said(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        return _nowhere(request) if error.status_code in (404, 405) else refuse(str(error.detail), error.status_code)

    @app.exception_handler(Exception)
    async def other(request: Request, error: Exception) -> JSONResponse:
        return refuse("something went wrong in the server; its log says what", 500)


def _nowhere(request: Request) -> JSONResponse:
    """There is nothing at that address, or it is asked otherwise; the page's own files are asked for before that."""
    path = request.scope["path"]
    methods = sorted(method.upper() for method in request.app.openapi()["paths"].get(path, ()))
    if methods:
        answer = refuse(f"this endpoint is asked with {' or '.join(methods)}; /docs says how", 405)
        answer.headers["Allow"] = ", ".join(methods)
        return answer
    if path.startswith("/v1/chat"):
        return refuse("a masked language model does not chat: /v1/completions goes on from a prompt, or fills in", 404)
    return refuse("there is nothing at this address; /docs lists what there is", 404)


def said(errors: Sequence[Any]) -> str:
    """The first thing that is wrong with a body, in a sentence."""
    if errors[0]["type"] == "json_invalid":
        return f"the body is not JSON: {_OBJECT}"
    first = _deepest(errors)
    where = ".".join(_fields(first[0]["loc"]))[:80]
    wrong = " or ".join(dict.fromkeys(map(_wrong, first)))
    return f"{where or 'the body'}: {wrong[:300]}; /docs says what may be sent"


def _deepest(errors: Sequence[Any]) -> list[Any]:
    """What is said of the first field: where it may be of several types, by the one that came furthest."""
    same = [one for one in errors if _fields(one["loc"])[:1] == _fields(errors[0]["loc"])[:1]]
    deepest = [one for one in same if len(_fields(one["loc"])) == max(len(_fields(two["loc"])) for two in same)]
    return [one for one in deepest if not one["type"].endswith("_type")] or deepest


def _fields(where: Sequence[Any]) -> list[str]:
    """The names and numbers in a place; pydantic puts the types it tried between them, as list[constrained-str]."""
    return [str(part) for part in where if part != "body" and (isinstance(part, int) or str(part).isidentifier())]


def _wrong(error: Any) -> str:
    said = _PLAINLY.get(error["type"], error["msg"].removeprefix("Value error, "))
    return str(said[0].lower() + said[1:])
