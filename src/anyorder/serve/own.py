"""The library's own endpoints: the options of the commands, lists in and lists out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from anyorder.serve import requests
from anyorder.serve.costs import cost
from anyorder.serve.jobs import Job
from anyorder.serve.requests import Text, Texts, body, read
from anyorder.serve.stream import answer, events
from anyorder.tasks.options import FillOptions, GenerateOptions, JointsOptions, ScoreOptions, TranslateOptions

# What a request may ask for, beyond the limits of the options themselves.
MOST = {"top": 100, "beam": 128, "samples": 64, "steps": 4096, "length": 4096, "block": 512, "stride": 4096}
MOST |= {"top_k": 10**6, "lengths": 64, "repair": 64, "speculate": 256}

_BLANKS = "A text with blanks, or a list of such: ___ is one token, ___{2} two, ___{1-3} one to three."
FillBody: Any = body(
    "Fill", FillOptions, at_most=MOST, texts=(Texts, Field(description=_BLANKS)),
    alone=(bool, Field(False, description="Also each blank's likeliest words if nobody looks at the other blanks.")),
)  # fmt: skip
ScoreBody: Any = body(
    "Score", ScoreOptions, at_most=MOST, texts=(Texts, Field(description="A text, or a list of texts."))
)
JointBody: Any = body(
    "Joint", JointsOptions, at_most=MOST, text=(Text, Field(description="A text with two blanks, ___ each.")),
    cells=(int, Field(12, ge=1, le=64, description="Tokens per blank in the heat map.")),
)  # fmt: skip
GenerateBody: Any = body(
    "Generate", GenerateOptions, leave_out=("prompt",), at_most=MOST,
    texts=(Texts | None, Field(None, description="Prompts: words to keep, ... where text goes, ___ one token.")),
    stream=(bool, Field(False, description="Server-sent events as the texts come about.")),
    canvas=(bool, Field(False, description="With stream: every state, its tokens, log-probabilities and entropies.")),
)  # fmt: skip
TranslateBody: Any = body(
    "Translate", TranslateOptions, at_most=MOST, texts=(Texts, Field(description="A source, or a list of sources."))
)


class TokensBody(requests.Request):
    """A text or a row of token ids, and a position in it."""

    text: Text | None = Field(None, description="A text, with blanks or without.")
    ids: Annotated[list[int], Field(min_length=1, max_length=4096)] | None = Field(
        None, description="In its place a row of token ids, as the states of a generation carry them."
    )
    position: int | None = Field(None, ge=0, le=4096, description="Counted from 0, special tokens included.")
    top: int = Field(10, ge=1, le=100, description="How many alternatives.")


def routes() -> APIRouter:
    """Their router."""
    router = APIRouter(tags=["anyorder"])

    @router.post("/fill")
    async def fill(said: FillBody, request: Request) -> dict[str, Any]:
        """Fill every blank of each text jointly; completions ranked by their joint log-probability."""
        job = _job(request, "fill", said, FillOptions, alone=said.alone)
        return {"results": await answer(request, job)}

    @router.post("/generate", response_model=None)
    async def generate(said: GenerateBody, request: Request) -> dict[str, Any] | StreamingResponse:
        """Generate texts in any word order, around any words that are given."""
        job = _job(request, "generate", said, GenerateOptions, watched=said.stream, canvas=said.canvas)
        if said.stream:
            return events(request, job)
        return {"results": await answer(request, job)}

    @router.post("/score")
    async def score(said: ScoreBody, request: Request) -> dict[str, Any]:
        """How probable each text is."""
        return {"results": await answer(request, _job(request, "score", said, ScoreOptions))}

    @router.post("/joint")
    async def joint(said: JointBody, request: Request) -> Any:
        """The joint distribution over the two blanks of a text, by one construction or all, beside the product."""
        return await answer(request, _job(request, "joint", said, JointsOptions, cells=said.cells))

    @router.post("/translate")
    async def translate(said: TranslateBody, request: Request) -> dict[str, Any]:
        """The target of each source, by a model that was trained on pairs."""
        return {"results": await answer(request, _job(request, "translate", said, TranslateOptions))}

    @router.post("/tokens")
    async def tokens(said: TokensBody, request: Request) -> Any:
        """The tokens of a text, and what else could stand at one of them."""
        given = said.model_dump(exclude={"text"})
        state = request.app.state
        return await answer(
            request, Job("position", [said.text], FillOptions(), object(), 256, state.settings.seconds, extra=given)
        )

    return router


def _job(request: Request, kind: str, said: Any, options: Any, *, watched: bool = False, **extra: Any) -> Job:
    """The job of a body."""
    given = said.text if kind == "joint" else said.texts
    texts = given if isinstance(given, list) else [given]
    ready = read(said, options)
    # What belongs to a text alone need not be the same in a batch.
    key = replace(ready, seed=0, samples=1) if kind == "generate" else ready
    state = request.app.state
    return Job(
        kind, texts, ready, key, cost(state.lm, kind, texts, ready), state.settings.seconds,
        heavy="joint" in (kind, getattr(ready, "method", None)), watched=watched,
        single=not isinstance(given, list), extra=extra,
    )  # fmt: skip
