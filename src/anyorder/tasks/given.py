"""A text to write given another one: ``[CLS] source [SEP] ___ … ___ [SEP]``, and how many blanks there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.models.pairs import LengthHead, token_types, typed_by
from anyorder.tasks.lengths import length_posteriors
from anyorder.tasks.pieces import affixes
from anyorder.tasks.rows import batches, padded
from anyorder.text.compose import Canvas
from anyorder.text.pairs import pair_frame, sides
from anyorder.text.template import Blank, Layout, Template
from anyorder.text.vocabulary import vocabulary

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

_ROWS = 64  # sources whose lengths are asked together


def openings(lm: MaskedLM, sources: Sequence[str], first: int | None = None) -> list[list[int]]:
    """What stands before the target in the row of each pair, as the tokenizer itself joins two texts.

    Args:
        lm: The model.
        sources: The texts that are given.
        first: The number of the first, for messages about one of several; None: there is one.
    """
    before, between, after = pair_frame(lm.tokenizer)
    found = []
    for number, (source, ids) in enumerate(zip(sources, sides(lm.tokenizer, sources), strict=True), first or 0):
        named = "the source" if first is None else f"source {number:,}"
        if not source.strip() or not ids:
            raise AnyorderError(f"{named} is empty: give the text that is to be read first")
        opening = [*before, *ids, *between]
        if len(opening) + len(after) + 1 > lm.max_length:
            raise AnyorderError(
                f"{named} takes {len(opening)} of the model's {lm.max_length} tokens and leaves no room: split it, or "
                "choose a model that takes longer texts"
            )
        found.append(opening)
    return found


def blank_row(lm: MaskedLM, opening: Sequence[int], length: int) -> Layout:
    """The row of a pair whose target is ``length`` blanks."""
    tokens = torch.tensor([*opening, *[lm.conditionals.mask_id] * length, *pair_frame(lm.tokenizer).after])
    return Layout(tokens, (tuple(range(len(opening), len(opening) + length)),), ("", ""))


def with_given(lm: MaskedLM, canvas: Canvas, given: str) -> Canvas:
    """``canvas`` after another text; what is shown and returned is the text of the canvas alone."""
    (opening,) = openings(lm, [given])
    before, _ = affixes(lm.tokenizer)  # of a text alone
    where, shift = canvas.layout, len(opening) - len(before)
    tokens = torch.cat([torch.tensor(opening), where.tokens[len(before) :]])
    if len(tokens) > lm.max_length:
        raise AnyorderError(
            f"the given text and the {len(tokens) - len(opening)} tokens after it do not fit the model's "
            f"{lm.max_length}: shorten it, or lower --length"
        )
    slots = tuple(tuple(position + shift for position in run) for run in where.slots)
    anything = torch.ones((shift, canvas.allowed.shape[1]), dtype=torch.bool)
    allowed = torch.cat([anything, canvas.allowed])
    return Canvas(replace(where, tokens=tokens, slots=slots), allowed, given=len(opening))


def length_laws(lm: MaskedLM, rows: Sequence[Sequence[int]], law: str = "auto") -> Tensor:
    """log p(length | source) of each opening, [T, longest + 1], -inf where a target does not fit (0 among them).

    Args:
        lm: The model.
        rows: From :func:`openings`.
        law: ``head``: what the model learned beside its conditionals; ``text``: the conditionals themselves, by Bayes'
            rule over the last tokens of the source (:mod:`anyorder.tasks.lengths`); ``auto``: the head if there is one.
    """
    if law == "auto":
        law = "text" if lm.length_head is None else "head"
    room = torch.tensor([lm.max_length - len(row) - len(pair_frame(lm.tokenizer).after) for row in rows])
    if law == "head":
        if lm.length_head is None:
            raise AnyorderError(
                "this model has no head for lengths: train it with objective.length, or take the law of the text "
                "(--length-law text)"
            )
        found = _by_head(lm, lm.length_head, rows)
    else:
        found = _by_text(lm, rows, room.tolist())
    length = torch.arange(found.shape[1])
    return found.masked_fill((length == 0) | (length > room[:, None]), -torch.inf).log_softmax(-1)


@torch.inference_mode()
def _by_head(lm: MaskedLM, head: LengthHead, rows: Sequence[Sequence[int]]) -> Tensor:
    pad, typed = lm.conditionals.pad_id, typed_by(lm.model)
    before, between, _ = pair_frame(lm.tokenizer)
    # As it was trained: up to the token that ends the source.
    rows = [row[: len(row) - len(between) + 1] for row in rows]
    found: list[tuple[int, Tensor]] = []
    for batch in batches([len(row) for row in rows], pad, size=_ROWS):
        tokens = padded([torch.tensor(rows[i]) for i in batch], pad).to(lm.model.device)
        inputs = {"input_ids": tokens}
        if pad is not None:
            inputs["attention_mask"] = (tokens != pad).long()
        if typed is not None:
            inputs["token_type_ids"] = token_types(tokens, typed)
        states = lm.model.base_model(**inputs)[0][:, 0].float().cpu()
        logits = head(states, torch.tensor([len(rows[i]) - len(before) - 1 for i in batch]))
        found += zip(batch, logits.double(), strict=True)
    return torch.stack([logits for _, logits in sorted(found, key=lambda one: one[0])])


def _by_text(lm: MaskedLM, rows: Sequence[Sequence[int]], room: Sequence[int]) -> Tensor:
    """From half to twice the source's length: every length costs a chain over the tokens beside the blanks."""
    words = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    before, between, _ = pair_frame(lm.tokenizer)
    counts = [len(row) - len(before) - len(between) for row in rows]
    ranges = [range(max(1, n // 2), 1 + min(most, 2 * n + 2)) for n, most in zip(counts, room, strict=True)]
    templates = [Template(("", ""), (Blank(some[0], some[-1]),)) for some in ranges]
    layouts = [[blank_row(lm, row, n) for n in some] for row, some in zip(rows, ranges, strict=True)]
    found = torch.full((len(rows), max(some[-1] for some in ranges) + 1), -torch.inf, dtype=torch.float64)
    laws = length_posteriors(lm.conditionals, layouts, templates, words)
    for row, some, law in zip(found, ranges, laws, strict=True):
        row[some[0] : some[-1] + 1] = law
    return found
