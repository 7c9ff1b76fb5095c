"""Hugging Face's fill-mask: a list per mask, as its pipeline answers, and beside them all masks jointly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from anyorder.errors import AnyorderError
from anyorder.serve.costs import cost
from anyorder.serve.jobs import Job
from anyorder.serve.requests import Text, Texts
from anyorder.serve.stream import answer
from anyorder.tasks.fill import fill, read_template
from anyorder.tasks.lm import MaskedLM
from anyorder.tasks.options import FillOptions
from anyorder.tasks.rows import padded
from anyorder.text.template import Layout, layout
from anyorder.text.vocabulary import vocabulary


class Parameters(BaseModel):
    """As the inference API takes them, and ``joint``."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    top_k: int | None = Field(default=None, ge=1, le=100, description="How many tokens per mask; 5 if absent.")
    targets: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Only these words."
    )
    joint: bool = Field(default=False, description='Answer {"masks": …, "joint": …}: also all masks of a text jointly.')


class FillMask(BaseModel):
    """A text with masks, or several."""

    model_config = ConfigDict(extra="forbid")

    inputs: Texts = Field(description="Texts with ___ or the model's mask token.")
    parameters: Parameters = Field(Parameters(), description="How many, among which, and whether jointly.")


def routes() -> APIRouter:
    """Its router."""
    router = APIRouter(tags=["Hugging Face"])

    @router.post("/fill-mask")
    async def fill_mask(said: FillMask, request: Request) -> Any:
        """The likeliest tokens of every mask, and of all masks jointly if asked for."""
        texts = said.inputs if isinstance(said.inputs, list) else [said.inputs]
        given, state = said.parameters, request.app.state
        options = FillOptions(top=given.top_k or 5)
        targets = None if given.targets is None else tuple(given.targets)
        key = (options, targets, given.joint)
        work = cost(state.lm, "fill", texts, options) if given.joint else sum(map(len, texts))
        extra = {"targets": targets, "joint": given.joint}
        job = Job("mask", texts, options, key, work, state.settings.seconds, extra=extra)
        results = await answer(request, job)
        return results if isinstance(said.inputs, list) else results[0]

    return router


def fill_masks(lm: MaskedLM, texts: Sequence[str], options: FillOptions, targets: Any, joint: bool) -> list[Any]:
    """What the endpoint answers for each text."""
    vocab = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    layouts = []
    for text in texts:
        template = read_template(lm, text, vocab)
        if template.combinations > 1:
            raise AnyorderError("fill-mask has masks of one length each: write ___{3}, or ask /fill for open lengths")
        layouts.append(layout(template.texts, [b.low for b in template.blanks], vocab, lm.max_length, True))
    places = [torch.tensor([p for run in cut.slots for p in run]) for cut in layouts]
    wanted = None if targets is None else _ids(lm, targets)
    asked = torch.nn.utils.rnn.pad_sequence(places, batch_first=True, padding_value=-1)
    with torch.inference_mode():
        log_q = lm.conditionals(padded([cut.tokens for cut in layouts], lm.conditionals.pad_id), asked)
    answers = []
    for text, cut, place, found in zip(texts, layouts, places, log_q, strict=True):
        lists = [_best(cut, int(p), row, options.top, wanted, vocab) for p, row in zip(place, found, strict=False)]
        # One mask is answered with its list, several with a list of lists: the pipeline does so too.
        shown: Any = lists[0] if len(lists) == 1 else lists
        answers.append({"masks": lists, "joint": _jointly(lm, text, options)} if joint else shown)
    return answers


def _best(cut: Layout, place: int, log_q: torch.Tensor, top: int, wanted: list[int] | None, vocab: Any) -> list[Any]:
    among = log_q if wanted is None else log_q[wanted]
    best = among.topk(min(top, len(among)))
    out = []
    for index, value in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True):
        token = index if wanted is None else wanted[index]
        row = cut.tokens.clone()
        row[place] = token
        text = cut.render(row, vocab)[0]
        out.append({"score": value, "token": token, "token_str": vocab.surface(token), "sequence": text})
    return out


def _jointly(lm: MaskedLM, text: str, options: FillOptions) -> list[dict[str, Any]]:
    return [{"score": one.prob, "token_strs": list(one.fills), "sequence": one.text} for one in fill(lm, text, options)]


def _ids(lm: MaskedLM, targets: Sequence[str]) -> list[int]:
    """The token of each target; as the pipeline does, the first of several pieces would say nothing of the word."""
    ids = []
    for word in targets:
        pieces = lm.tokenizer(word, add_special_tokens=False)["input_ids"]
        if len(pieces) != 1 or pieces[0] == lm.tokenizer.unk_token_id:
            raise AnyorderError(f"the target {word[:40]!r} is not one token of this model: leave it out")
        ids.append(pieces[0])
    return list(dict.fromkeys(ids))
