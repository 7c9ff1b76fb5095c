"""What else could stand at a position of a text: its alternatives, and how uncertain the model is there."""

from __future__ import annotations

from typing import Any

import torch

from anyorder.conditionals.restricted import text_only
from anyorder.errors import AnyorderError
from anyorder.samplers.draw import entropy_of
from anyorder.serve.canvas import described
from anyorder.tasks.lm import MaskedLM
from anyorder.text.template import check_length, layout, parse
from anyorder.text.vocabulary import Vocabulary, vocabulary


def position(
    lm: MaskedLM, text: str | None, *, ids: list[int] | None = None, position: int | None = None, top: int = 10
) -> dict[str, Any]:
    """q(x_t | all the others), whatever stands at t now, over the tokens that are text.

    Args:
        lm: The model.
        text: A text, with blanks or without;
        ids: or a row of token ids, as the states of a generation carry them.
        position: t, counted from 0 over the row, special tokens included; None only cuts the text into tokens.
        top: How many alternatives.
    """
    vocab = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    row = _row(lm, text, vocab) if ids is None else _checked(lm, ids)
    out = described(vocab, row)
    if position is None:
        return out
    if not 0 <= position < len(row):
        raise AnyorderError(f"position {position} of a row of {len(row)} tokens: positions count from 0")
    if position in out["special"]:
        raise AnyorderError(f"position {position} holds no text: ask for another")
    tokens = torch.tensor([row])
    tokens[0, position] = lm.conditionals.mask_id
    with torch.inference_mode():
        log_q = text_only(lm.conditionals, lm.tokenizer)(tokens, torch.tensor([[position]]))[0, 0]  # [V]
    best = log_q.topk(min(top, int(torch.isfinite(log_q).sum())))
    now = row[position]
    held = None if now == lm.conditionals.mask_id else {"id": now, "log_prob": float(log_q[now])}
    return {
        **out,
        "position": position,
        "held": held,
        "entropy": float(entropy_of(log_q)),
        "alternatives": [
            {"id": t, "token": vocab.surface(t), "prob": p}
            for t, p in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        ],
    }


def _row(lm: MaskedLM, text: str | None, vocab: Vocabulary) -> list[int]:
    if text is None or not text.strip():
        raise AnyorderError("the text is empty: write some words")
    template = parse(text, str(lm.tokenizer.mask_token), lm.max_length)
    check_length(" ".join(template.texts), vocab, lm.max_length)
    lengths = [blank.low for blank in template.blanks]
    row: list[int] = layout(template.texts, lengths, vocab, lm.max_length, allow_unknown=True).tokens.tolist()
    return row


def _checked(lm: MaskedLM, ids: list[int]) -> list[int]:
    if len(ids) > lm.max_length:
        raise AnyorderError(f"{len(ids)} tokens do not fit the model, which holds {lm.max_length}: shorten the row")
    if not all(0 <= one < lm.conditionals.vocab_size for one in ids):
        raise AnyorderError(f"token ids go from 0 to {lm.conditionals.vocab_size - 1}: send those of a state")
    return ids
