"""llama.cpp's infill: text between a prefix and a suffix, as editors ask for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from anyorder.errors import AnyorderError
from anyorder.serve.completing import Growing, between_text, commits, completion_job, drawing
from anyorder.serve.requests import Text
from anyorder.serve.stream import answer, events
from anyorder.tasks.lm import MaskedLM

USUAL = 16  # tokens, where a client leaves it to the server


class Infill(BaseModel):
    """As llama.cpp's server takes it; what it has beyond that is not looked at."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    input_prefix: Text = Field("", description="The text before, of which the end is read if it is too long.")
    input_suffix: Text = Field("", description="The text after, of which the beginning is read if it is too long.")
    prompt: Text = Field("", description="Goes on from the prefix.")
    n_predict: int = Field(-1, ge=-1, le=4096, description=f"Tokens to generate; -1 is {USUAL}.")
    temperature: float = Field(0.8, ge=0, le=100, description="0 takes the likeliest token.")
    top_k: int = Field(40, ge=0, le=2**31 - 1, description="Draw among the k likeliest tokens; 0 is all.")
    top_p: float = Field(0.95, gt=0, le=1, description="Draw among the likeliest that hold this mass.")
    seed: int = Field(-1, ge=-1, le=2**63 - 1, description="Fixes the text; -1 is a fresh one.")
    stream: bool = Field(False, description="Server-sent events.")


def routes() -> APIRouter:
    """Its router."""
    router = APIRouter(tags=["llama.cpp"])

    @router.post("/infill", response_model=None)
    async def infill(said: Infill, request: Request) -> dict[str, Any] | StreamingResponse:
        """Text between a prefix and a suffix."""
        lm: MaskedLM = request.app.state.lm
        count = USUAL if said.n_predict == -1 else said.n_predict
        if count < 1:
            raise AnyorderError("n_predict must be at least 1, or -1")
        before, after = _window(lm, said.input_prefix + said.prompt, said.input_suffix, count)
        options = drawing(
            temperature=said.temperature, top_p=said.top_p, top_k=said.top_k or None,
            seed=None if said.seed == -1 else said.seed, samples=1,
        )  # fmt: skip
        job = completion_job(request, [before], after, count, options, said.stream)
        head = {"model": lm.name, "index": 0}
        if said.stream:
            return events(request, job, _told(Growing(before, after), head, commits(options), count), done=False)
        ((one,),) = await answer(request, job)
        return {**head, **_end(between_text(one["text"], before, after), one, count)}

    return router


def _window(lm: MaskedLM, before: str, after: str, count: int) -> tuple[str, str]:
    """The end of the prefix and the beginning of the suffix that the model can hold beside ``count`` tokens."""
    room = lm.max_length - count - 4
    if room < 0:
        raise AnyorderError(f"{count} tokens do not fit the model, which holds {lm.max_length}: lower n_predict")
    if not lm.tokenizer.is_fast:
        raise AnyorderError("this model's tokenizer does not say where its tokens stand: ask /v1/completions instead")
    cut = [
        lm.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
        for text in (before, after)
    ]
    # Half of the room each, and what one leaves to the other.
    right = min(len(cut[1]), max(room // 2, room - len(cut[0])))
    left = min(len(cut[0]), room - right)
    start = cut[0][-left][0] if left else len(before)
    stop = cut[1][right - 1][1] if right else 0
    return before[start if left < len(cut[0]) else 0 :], after[: stop if right < len(cut[1]) else None]


def _end(text: str, one: dict[str, Any], count: int) -> dict[str, Any]:
    counts = {"tokens_predicted": count, "tokens_evaluated": len(one["tokens"]) - count}
    return {"content": text, "stop": True, "stop_type": "limit", "truncated": False, **counts}


def _told(growing: Growing, head: dict[str, Any], grows: bool, count: int) -> Any:
    def told(what: str, value: Any) -> Iterable[dict[str, Any]]:
        if what == "event" and value["type"] == "state":
            more = growing.more(value["text"]) if grows else ""
            if more:
                yield {**head, "content": more, "stop": False}
        elif what == "event" and value["type"] == "end":
            yield {**head, **_end(growing.rest(value["result"]["text"]), value["result"], count)}

    return told
