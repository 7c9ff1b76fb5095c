"""Texts to rows of tokens: what is scored, what belongs to which word, and windows where a text is too long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Piece:
    """One row: a text, or a window of one that is too long for the model."""

    text: int  # which text it belongs to
    tokens: list[int]  # special tokens included
    start: int  # tokens[start:stop] are scored here, all others are observed
    stop: int
    words: list[int]  # the word each token belongs to

    @property
    def scored(self) -> int:
        """How many tokens this row scores."""
        return self.stop - self.start


def pieces(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    max_length: int,
    *,
    stride: int | None = None,
    strict: bool = False,
    first: int = 1,
) -> list[Piece]:
    """Cut texts into rows the model can take; a text without tokens gives none.

    A text of more than ``max_length`` tokens is read in windows: the first scores all its tokens, each further one
    the next ``stride`` tokens given those before them. Left to right this is the usual sliding-window likelihood.

    Args:
        tokenizer: The model's.
        texts: Any strings.
        max_length: Tokens of one row, special ones included.
        stride: New tokens per window; half a row if None.
        strict: Refuse texts that are too long instead.
        first: The number of the first text in error messages.
    """
    before, after = affixes(tokenizer)
    room = max_length - len(before) - len(after)
    step = room // 2 if stride is None else stride
    if not 1 <= step <= room:
        raise AnyorderError(f"a stride of {step} tokens does not fit the model's {room}: choose 1 to {room}")
    if not texts:
        return []
    encoded = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
    rows: list[Piece] = []
    for i, ids in enumerate(encoded["input_ids"]):
        _check(tokenizer, ids, f"text {i + first}")
        if strict and len(ids) > room:
            raise AnyorderError(
                f"text {i + first} has {len(ids)} tokens and the model takes {room}: shorten it, "
                "or leave out --strict to score it in windows"
            )
        words = word_numbers(tokenizer, encoded, i)
        rows += windows(ids, words, before, after, room, step, text=i)
    return rows


def windows(
    ids: Sequence[int],
    words: Sequence[int],
    before: list[int],
    after: list[int],
    room: int,
    step: int,
    *,
    given: int = 0,
    text: int = 0,
) -> list[Piece]:
    """Rows that score ``ids[given:]``, each token once, given ``ids[:given]`` as far as they fit.

    Args:
        ids: Tokens without special ones.
        words: The word each belongs to.
        before: Special tokens in front of every row.
        after: Special tokens behind every row.
        room: Tokens a row takes beside the special ones.
        step: New tokens of each further row.
        given: Tokens that are observed and not scored.
        text: The number of the text.
    """
    rows = []
    done = given
    while done < len(ids):
        end = min(max(room, done + step), len(ids))
        begin = max(0, end - room)
        rows.append(
            Piece(
                text=text,
                tokens=[*before, *ids[begin:end], *after],
                start=len(before) + done - begin,
                stop=len(before) + end - begin,
                words=[-1] * len(before) + list(words[begin:end]) + [-1] * len(after),
            )
        )
        done = end
    return rows


def affixes(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The special tokens the tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a")["input_ids"]
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return full[:start], full[start + len(bare) :]
    raise AnyorderError("this tokenizer changes a text when it adds special tokens: choose one that only surrounds it")


def word_numbers(tokenizer: PreTrainedTokenizerBase, encoded: Any, i: int) -> list[int]:
    """The word each token of text ``i`` belongs to, as the tokenizer itself splits words.

    Tokenizers without that knowledge (slow ones) mark it in their tokens: ``##`` goes on with a word, ``▁`` and ``Ġ``
    begin one.
    """
    if tokenizer.is_fast:
        # A token that belongs to no word (a special token written out in the text) is a word of its own.
        return [-2 - j if w is None else w for j, w in enumerate(encoded.word_ids(i))]
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][i])
    marked = any(t.startswith(("▁", "Ġ")) for t in tokens)
    number, numbers = 0, []
    for token in tokens:
        number += token.startswith(("▁", "Ġ")) if marked else not token.startswith("##")
        numbers.append(number)
    return numbers


def _check(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], name: str) -> None:
    if tokenizer.mask_token_id in ids:
        raise AnyorderError(f"{name} contains {tokenizer.mask_token}, which has no probability: fill it first")
    if tokenizer.pad_token_id in ids and tokenizer.pad_token_id is not None:
        raise AnyorderError(f"{name} contains the padding token {tokenizer.pad_token}: remove it")
