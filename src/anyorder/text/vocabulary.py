"""Which tokens begin a word, which continue one, and how pieces become text: one answer for every kind of tokenizer."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Style = Literal["wordpiece", "byte", "sentencepiece", "character", "word"]

# What marks the pieces: WordPiece marks those that continue a word, the other two those that begin one.
_MARKS: dict[Style, str] = {"wordpiece": "##", "byte": "Ġ", "sentencepiece": "▁"}
ANY, BEGINS, CONTINUES = range(3)  # kinds of tokens: all, those that begin a word, those that continue one
_CLOSING = ".,;:!?%)]}"
_OPENING = "([{"
_INSIDE = "'’"  # stands inside a word: We ' d -> We'd
GLUED_LEFT, GLUED_RIGHT = 1, 2  # bits: written onto what stands before, after
_UNUSED = re.compile(r"\[unused\d+\]|madeupword\d+|<unused\d+>")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The word boundaries of a tokenizer.

    Attributes:
        tokenizer: the tokenizer itself.
        style: how it marks boundaries; ``character`` and ``word`` vocabularies mark none (every token is a word of
            its own, written together or with spaces).
        pieces: the token strings by id, as the vocabulary spells them.
        special: [V] bool, tokens that are never text: the special ones, placeholders, and padding of the vocabulary.
        starts: [V] bool, tokens that begin a new word when they follow another one.
        start_marked: whether the first word of a text carries the mark of a new word (``byte``, ``sentencepiece``).
    """

    tokenizer: PreTrainedTokenizerBase
    style: Style
    pieces: tuple[str, ...]
    special: Tensor
    starts: Tensor
    start_marked: bool

    @functools.cached_property
    def fits(self) -> Tensor:
        """[3, V] bool: the tokens of each of the kinds ``ANY``, ``BEGINS`` and ``CONTINUES``."""
        mark = _MARKS.get(self.style)
        # A mark on its own is a space, not a word.
        bare = torch.tensor([piece == mark for piece in self.pieces])
        return torch.stack([torch.ones_like(self.special), self.starts & ~bare, ~self.starts & ~bare])

    def kind(self, left: str) -> int:
        """What fits a blank to the right of ``left``, as a word where it stands as one.

        After a letter or digit the blank stands *inside* a word and takes the pieces that continue it; anywhere else
        it takes the pieces that begin one.
        """
        if self.style in ("character", "word"):
            return ANY
        if self.style == "wordpiece":
            return CONTINUES if glues(left) else BEGINS
        spaced = left == "" or left[-1].isspace()
        return BEGINS if spaced and (self.start_marked or left.strip() != "") else CONTINUES

    @functools.cached_property
    def longest(self) -> int:
        """Characters of the longest piece."""
        return max(map(len, self.pieces), default=1)

    @functools.cached_property
    def _decoded(self) -> dict[int, str]:
        """Single tokens as text, as they were asked for: blanks of one token come a thousand times."""
        return {}

    def surface(self, token: int) -> str:
        """A token as text, without its mark: ``##ing`` -> ``ing``, ``Ġfox`` -> ``fox``."""
        piece = self.pieces[token]
        if self.style == "wordpiece":
            return piece.removeprefix("##")
        if self.style in ("byte", "sentencepiece"):
            text = self.tokenizer.convert_tokens_to_string([piece])
            return text.strip(" ") or text
        return piece

    def glue(self, token: int) -> int:
        """Where no space is written beside a token shown for itself: bits ``GLUED_LEFT`` and ``GLUED_RIGHT``.

        For texts that are shown token by token, some still missing; whole texts are :meth:`decode`'s.
        """
        if self.style == "character":
            return GLUED_LEFT | GLUED_RIGHT
        if not bool(self.starts[token]):
            return GLUED_LEFT
        if self.style != "wordpiece":
            return 0
        piece = self.pieces[token]
        left = piece in (*_CLOSING, *_INSIDE)
        right = piece in (*_OPENING, *_INSIDE)
        return GLUED_LEFT * left | GLUED_RIGHT * right

    def decode(self, tokens: Sequence[int]) -> str:
        """A run of tokens as text, without the space before its first word."""
        if len(tokens) != 1:
            return self._decode(tokens)
        if tokens[0] not in self._decoded:
            self._decoded[tokens[0]] = self._decode(tokens)
        return self._decoded[tokens[0]]

    def _decode(self, tokens: Sequence[int]) -> str:
        if self.style in ("character", "word"):
            return ("" if self.style == "character" else " ").join(self.pieces[t] for t in tokens)
        text = str(self.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=self.style == "wordpiece"))
        return text.removeprefix("##") if self.style == "wordpiece" else text.lstrip(" ")

    def join(self, left: str, tokens: Sequence[int], soft: bool = False) -> str:
        """``left`` with the text of ``tokens`` after it, spaced as the tokens say.

        The user's own spacing stays, except where the first token continues the word before it, and where the space
        is not theirs (``soft``) and punctuation follows.
        """
        if not tokens:
            return left
        text = self.decode(tokens)
        begins = bool(self.starts[tokens[0]])
        if self.style == "character" or left == "":
            return left + text
        if not begins or (soft and text[:1] in _CLOSING and text):
            return (left.rstrip() or left) + text
        marked = self.style in ("byte", "sentencepiece")
        apart = not left[-1].isspace() and (marked or glues(left))
        return left + (" " if apart else "") + text


def glues(left: str) -> bool:
    """Whether a word that follows ``left`` at once would be read as one with it."""
    # Chinese, Japanese and Korean are written without spaces and split at every character.
    return bool(left) and left[-1].isalnum() and not 0x2E80 <= ord(left[-1]) <= 0xFAFF


def vocabulary(tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> Vocabulary:
    """Read the word boundaries off a tokenizer.

    Args:
        tokenizer: any Hugging Face tokenizer.
        vocab_size: the model's, which may be larger than the tokenizer's (ids in between are never text).
    """
    # Reading tens of thousands of pieces takes a while, and every call needs them; a tokenizer that grew is read again.
    return _read(tokenizer, len(tokenizer), vocab_size)


@functools.lru_cache(maxsize=4)
def _read(tokenizer: PreTrainedTokenizerBase, size: int, vocab_size: int) -> Vocabulary:
    known = min(size, vocab_size)
    pieces = [""] * known
    for piece, i in tokenizer.get_vocab().items():
        if i < known:
            pieces[i] = piece
    never = set(tokenizer.all_special_ids) | {i for i, p in enumerate(pieces) if not p or _UNUSED.fullmatch(p)}
    text = [p for i, p in enumerate(pieces) if i not in never]
    counts = {style: sum(p.startswith(mark) and p != mark for p in text) for style, mark in _MARKS.items()}
    style: Style = max(counts, key=lambda s: counts[s])
    if counts[style] == 0:
        style = _unmarked_style(tokenizer, text)

    special = torch.ones(vocab_size, dtype=torch.bool)
    special[:known] = torch.tensor([i in never for i in range(known)])
    starts = torch.ones(vocab_size, dtype=torch.bool)
    mark = _MARKS.get(style)
    if mark is not None:
        marked = torch.tensor([p.startswith(mark) for p in pieces])
        starts[:known] = ~marked if style == "wordpiece" else marked
    first = tokenizer.tokenize("a")
    start_marked = style in ("byte", "sentencepiece") and bool(first) and first[0].startswith(_MARKS[style])
    pieces += [""] * (vocab_size - known)
    return Vocabulary(tokenizer, style, tuple(pieces), special, starts, start_marked)


def _unmarked_style(tokenizer: PreTrainedTokenizerBase, text: list[str]) -> Style:
    """Pieces without marks are written together only if the tokenizer can take them apart again."""
    some = text[:: max(1, len(text) // 32)]
    pairs = list(itertools.pairwise(some))
    # Not all need be told apart: in SMILES C and l would make chlorine.
    apart = sum(tokenizer.tokenize(a + b) == [a, b] for a, b in pairs)
    return "character" if pairs and 10 * apart >= 9 * len(pairs) else "word"
