"""A row of tokens as a page shows it: one string per position, spaced so that together they read as the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyorder.text.vocabulary import Vocabulary, glues

_CLOSING = ".,;:!?%)]}'’"


def spelt(words: Vocabulary, ids: Sequence[int]) -> list[str | None]:
    """One string per token, with the space before it where one belongs; None where a mask stands, "" for [CLS]."""
    mask = words.tokenizer.mask_token_id
    out: list[str | None] = []
    left = ""
    for token in ids:
        if token == mask:
            out.append(None)
            left = "x"  # whatever comes here, a word after it stands apart
            continue
        if bool(words.special[token]) and token != words.tokenizer.unk_token_id:
            out.append("")
            continue
        text = words.surface(token)
        begins = bool(words.starts[token]) and words.style != "character"
        # WordPiece marks no spaces: punctuation closes up to the word before it, as its decoder does.
        apart = begins and left and not (words.style == "wordpiece" and text[:1] in _CLOSING and text)
        text = " " + text if apart and (words.style != "wordpiece" or glues(left) or left[-1] in _CLOSING) else text
        out.append(text)
        left = text
    return out


def described(words: Vocabulary, ids: Sequence[int]) -> dict[str, Any]:
    """Tokens, their ids, and which of them are not text."""
    special = [p for p, t in enumerate(ids) if bool(words.special[t]) and t != words.tokenizer.mask_token_id]
    return {"tokens": spelt(words, ids), "ids": list(ids), "special": special}
