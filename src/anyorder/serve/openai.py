"""OpenAI's completions, with a suffix: the ``openai`` client works against them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from anyorder.serve.completing import Growing, between_text, commits, completion_job, drawing
from anyorder.serve.jobs import Refused
from anyorder.serve.requests import LONGEST, Text
from anyorder.serve.stream import answer, events

# Fields of OpenAI's that are not here: many clients send them with a value that changes nothing.
_NOTHING: dict[str, tuple[Any, ...]] = {
    "stop": (None, [], ""), "frequency_penalty": (None, 0), "presence_penalty": (None, 0), "logit_bias": (None, {}),
    "best_of": (None, 1),
}  # fmt: skip


class Completion(BaseModel):
    """As OpenAI defines it, and after ``canvas`` ours."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str | None = Field(None, max_length=256, description="The name of the one model there is, or nothing.")
    prompt: Text | Annotated[list[Text], Field(min_length=1, max_length=64)] = Field(
        "", description="The text to go on from, verbatim, or several."
    )
    suffix: Text | None = Field(None, description="What comes after the generated text.")
    max_tokens: int = Field(16, ge=1, le=4096, description="Tokens to generate, exactly so many.")
    n: int = Field(1, ge=1, le=64, description="Completions per prompt.")
    seed: int | None = Field(None, description="Fixes the text; a fresh one if absent.", ge=0, le=2**63 - 1)
    temperature: float = Field(1.0, ge=0, le=100, description="0 takes the likeliest token.")
    top_p: float = Field(1.0, gt=0, le=1, description="Draw among the likeliest that hold this mass.")
    logprobs: int | None = Field(None, ge=0, le=5, description="Log-probabilities of the tokens drawn.")
    stream: bool = Field(False, description="Server-sent events; deltas carry committed text only.")
    stream_options: dict[str, bool] | None = Field(
        None, description='{"include_usage": true} counts tokens at the end.'
    )
    echo: bool = Field(False, description="The prompt before the completion.")
    user: str | None = Field(None, max_length=LONGEST, description="Not used.")
    canvas: bool = Field(False, description="Ours, with stream: every state, as /generate has it.")
    order: str | Annotated[list[int], Field(max_length=4096)] | None = Field(None, description="Ours: in which order.")
    sampler: str | None = Field(None, max_length=64, description="Ours: which sampler.")
    steps: int | None = Field(None, ge=1, le=4096, description="Ours: steps of the samplers that have them.")
    schedule: str | None = Field(None, max_length=64, description="Ours: of the sampler parallel.")

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, said: Any) -> Any:
        if not isinstance(said, dict):
            return said
        return {name: value for name, value in said.items() if value not in _NOTHING.get(name, ())}


def routes() -> APIRouter:
    """Their router."""
    router = APIRouter(tags=["OpenAI"])

    @router.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        """The one model there is."""
        return {"object": "list", "data": [_model(request.app.state.lm.name)]}

    @router.get("/v1/models/{name:path}")
    async def model(name: str, request: Request) -> dict[str, Any]:
        """The one model there is, by its name."""
        return _model(_the_one(request, name))

    @router.post("/v1/completions", response_model=None)
    async def completions(said: Completion, request: Request) -> dict[str, Any] | StreamingResponse:
        """Text after a prompt, or between a prompt and a suffix."""
        name = _the_one(request, said.model)
        prompts = said.prompt if isinstance(said.prompt, list) else [said.prompt]
        options = drawing(
            temperature=said.temperature, top_p=said.top_p, seed=said.seed, samples=said.n, order=said.order,
            sampler=said.sampler, steps=said.steps, schedule=said.schedule,
        )  # fmt: skip
        after = said.suffix or ""
        extra = {"canvas": said.canvas, "drawn": said.logprobs is not None}
        job = completion_job(request, prompts, after, said.max_tokens, options, said.stream, **extra)
        head = {"id": f"cmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": name}
        told = _Told(said, prompts, after, {**head, "object": "text_completion"}, commits(options))
        if said.stream:
            return events(request, job, told)
        return told.whole(await answer(request, job))

    return router


def _the_one(request: Request, name: str | None) -> str:
    """The name of the model, which is all a client may ask for."""
    mine: str = request.app.state.lm.name
    if name not in (None, "", mine):
        raise Refused(404, f"this server has no model of that name: its model is {mine}")
    return mine


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "anyorder"}


class _Told:
    """What a job tells, as OpenAI's objects."""

    def __init__(self, said: Completion, prompts: list[str], after: str, head: dict[str, Any], grows: bool) -> None:
        self._said, self._prompts, self._after, self._head, self._grows = said, prompts, after, head, grows
        self._growing = [Growing(prompt, after) for prompt in prompts for _ in range(said.n)]

    def whole(self, results: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """The answer in one piece."""
        found = [one for several in results for one in several]
        choices = [self._choice(row, self._text(row, one), one, "length") for row, one in enumerate(found)]
        return {**self._head, "choices": choices, "usage": self._usage(results)}

    def __call__(self, what: str, value: Any) -> Iterable[dict[str, Any]]:
        """The chunks of one event."""
        if what == "end":
            if (self._said.stream_options or {}).get("include_usage"):
                yield {**self._head, "choices": [], "usage": self._usage(value)}
            return
        row = value["row"]
        chunk = dict(self._head)
        if self._said.canvas:
            chunk["canvas"] = value
        if value["type"] == "start" and self._said.echo:
            yield {**chunk, "choices": [self._choice(row, self._prompts[row // self._said.n])]}
        elif value["type"] == "state":
            more = self._growing[row].more(value["text"]) if self._grows else ""
            if more or self._said.canvas:
                yield {**chunk, "choices": [self._choice(row, more)]}
        elif value["type"] == "end":
            rest = self._growing[row].rest(value["result"]["text"])
            yield {**chunk, "choices": [self._choice(row, rest, value["result"], "length")]}
        elif self._said.canvas:
            yield {**chunk, "choices": []}

    def _text(self, row: int, one: dict[str, Any]) -> str:
        prompt = self._prompts[row // self._said.n]
        text = between_text(one["text"], prompt, self._after)
        return prompt + text if self._said.echo else text

    def _choice(self, row: int, text: str, one: dict[str, Any] | None = None, why: str | None = None) -> dict[str, Any]:
        before = len(self._prompts[row // self._said.n]) if self._said.echo else 0
        logprobs = None if one is None or "drawn" not in one else _logprobs(one["drawn"], before)
        return {"index": row, "text": text, "logprobs": logprobs, "finish_reason": why}

    def _usage(self, results: list[list[dict[str, Any]]]) -> dict[str, int]:
        made = self._said.max_tokens * sum(map(len, results))
        given = sum(len(several[0]["tokens"]) - self._said.max_tokens for several in results)
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


def _logprobs(drawn: list[dict[str, Any]], at: int) -> dict[str, Any]:
    """OpenAI's object, the first token standing ``at`` in the text; of alternatives only the token itself is kept."""
    offsets = []
    for one in drawn:
        offsets.append(at)
        at += len(one["token"])
    return {
        "tokens": [one["token"] for one in drawn],
        "token_logprobs": [one["log_prob"] for one in drawn],
        "top_logprobs": [{one["token"]: one["log_prob"]} for one in drawn],
        "text_offset": offsets,
    }
