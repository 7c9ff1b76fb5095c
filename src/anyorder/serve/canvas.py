"""A row of tokens as a page shows it: one string per position, spaced so that together they read as the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyorder.text.vocabulary import Vocabulary, glues

_CLOSING = ".,;:!?%)]}'’"


def spelt(vocab: Vocabulary, ids: Sequence[int]) -> list[str | None]:
    """One string per token, with the space before it where one belongs; None where a mask stands, "" for [CLS]."""
    mask = vocab.tokenizer.mask_token_id
    out: list[str | None] = []
    left = ""
    for token in ids:
        if token == mask:
            out.append(None)
            left = "x"  # whatever comes here, a word after it stands apart
            continue
        if bool(vocab.special[token]) and token != vocab.tokenizer.unk_token_id:
            out.append("")
            continue
        text = vocab.surface(token)
        begins = bool(vocab.starts[token]) and vocab.style != "character"
        # WordPiece marks no spaces: punctuation closes up to the word before it, as its decoder does.
        apart = begins and left and not (vocab.style == "wordpiece" and text[:1] in _CLOSING and text)
        text = " " + text if apart and (vocab.style != "wordpiece" or glues(left) or left[-1] in _CLOSING) else text
        out.append(text)
        left = text
    return out


def described(vocab: Vocabulary, ids: Sequence[int]) -> dict[str, Any]:
    """Tokens, their ids, and which of them are not text."""
    text = (vocab.tokenizer.mask_token_id, vocab.tokenizer.unk_token_id)
    special = [p for p, t in enumerate(ids) if bool(vocab.special[t]) and t not in text]
    return {"tokens": spelt(vocab, ids), "ids": list(ids), "special": special}
