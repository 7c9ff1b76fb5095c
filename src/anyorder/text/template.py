"""Text with blanks -> tokens with masks, and back: ``"The ___ fox"``, ``___{3}``, ``___{1-4}``."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.text.vocabulary import ANY, CONTINUES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from anyorder.text.vocabulary import Vocabulary

# Every combination of lengths is a search of its own; beyond this the user waits without knowing why.
MAX_COMBINATIONS = 256
_LENGTHS = re.compile(r"\s*(\d{1,9})\s*(?:[-–]\s*(\d{1,9})\s*)?")


@dataclass(frozen=True)
class Blank:
    """A run of unknown tokens, at least ``low`` and at most ``high`` of them."""

    low: int = 1
    high: int = 1


@dataclass(frozen=True)
class Template:
    """The user's text, cut at its blanks: ``texts[i]`` stands before ``blanks[i]``, the last one after them all."""

    texts: tuple[str, ...]
    blanks: tuple[Blank, ...]

    def lengths(self) -> Iterator[tuple[int, ...]]:
        """Every choice of a length for every blank, shortest first."""
        return itertools.product(*(range(b.low, b.high + 1) for b in self.blanks))

    @property
    def combinations(self) -> int:
        """How many choices of lengths there are."""
        return math.prod(b.high - b.low + 1 for b in self.blanks)


@dataclass(frozen=True, eq=False)
class Layout:
    """A template with every length decided, as tokens.

    Attributes:
        tokens: [N] with the mask at every slot, special tokens included.
        slots: the positions of each blank's tokens.
        texts: the user's text around the blanks, verbatim.
        soft: the numbers of blanks before which the space is ours, not the user's, and gives way to punctuation.
    """

    tokens: Tensor
    slots: tuple[tuple[int, ...], ...]
    texts: tuple[str, ...]
    soft: frozenset[int] = frozenset()

    @property
    def free(self) -> Tensor:
        """[N] bool: the positions to be decided."""
        free = torch.zeros(len(self.tokens), dtype=torch.bool)
        free[[p for run in self.slots for p in run]] = True
        return free

    def render(self, tokens: Tensor, vocabulary: Vocabulary) -> tuple[str, tuple[str, ...]]:
        """[N] tokens -> the text, the user's own part verbatim, and what fills each blank."""
        ids = tokens.tolist()
        text, fills = self.texts[0], []
        for number, (run, after) in enumerate(zip(self.slots, self.texts[1:], strict=True)):
            fill = [ids[p] for p in run]
            text = vocabulary.join(text, fill, soft=number in self.soft) + after
            fills.append(vocabulary.decode(fill))
        return text, tuple(fills)


def parse(text: str, mask_token: str, max_length: int) -> Template:
    """Cut a text at its blanks.

    Args:
        text: three or more underscores, or ``mask_token``, are a blank of one token; ``___{3}`` is three tokens,
            ``___{1-4}`` one to four.
        mask_token: the tokenizer's own.
        max_length: tokens the model can hold; more blanks than that are refused before any work is done.
    """
    texts, blanks, end, shortest = [], [], 0, 0
    for match in re.finditer(rf"_{{3,}}(?:\{{([^{{}}]*)\}})?|{re.escape(mask_token)}", text):
        texts.append(text[end : match.start()])
        blanks.append(_blank(match.group(0), match.group(1)))
        end = match.end()
        shortest += blanks[-1].low
        if shortest > max_length:
            raise AnyorderError(f"more blanks than the model's {max_length} tokens: shorten the text")
    texts.append(text[end:])
    template = Template(tuple(texts), tuple(blanks))
    if template.combinations > MAX_COMBINATIONS:
        raise AnyorderError(
            f"the blanks allow {template.combinations} combinations of lengths, more than {MAX_COMBINATIONS}: "
            "narrow their ranges"
        )
    return template


def _blank(written: str, braces: str | None) -> Blank:
    if braces is None:
        return Blank()
    match = _LENGTHS.fullmatch(braces)
    if match is None:
        shown = written if len(written) <= 30 else written[:27] + "..."
        raise AnyorderError(f"the blank {shown!r} has no length: write ___{{3}} for three tokens or ___{{1-4}}")
    low = int(match.group(1))
    high = int(match.group(2) or low)
    if low < 1:
        raise AnyorderError(f"the blank {written!r} has no tokens: lengths start at 1")
    if high < low:
        raise AnyorderError(
            f"the blank {written!r} contradicts itself: write the smaller length first, {{{high}-{low}}}"
        )
    return Blank(low, high)


def check_length(text: str, vocabulary: Vocabulary, max_length: int) -> None:
    """Refuse a text that cannot fit, without tokenising it: no token is longer than the longest one."""
    characters = sum(map(len, text.split()))
    if characters > vocabulary.longest * max_length:
        raise AnyorderError(
            f"the text has {characters:,} characters, too many for the model's {max_length} tokens: split it"
        )


def layout(
    texts: Sequence[str],
    lengths: Sequence[int],
    vocabulary: Vocabulary,
    max_length: int,
    allow_unknown: bool = False,
) -> Layout:
    """Tokenise the text around the blanks, with ``lengths[i]`` masks after ``texts[i]``.

    The tokenizer sees one string with its own mask tokens in it, which is what transformers' fill-mask gives it.

    Raises:
        AnyorderError: if the result is too long, or a word has no tokens of its own (unless ``allow_unknown``).
    """
    return finish_layout(
        texts, lengths, tokenise([(texts, lengths)], vocabulary)[0], vocabulary, max_length, allow_unknown
    )


def tokenise(parts: Sequence[tuple[Sequence[str], Sequence[int]]], vocabulary: Vocabulary) -> list[list[int]]:
    """The token ids of several (texts, lengths) at once: a tokenizer takes far longer for each alone."""
    tokenizer = vocabulary.tokenizer
    mask = str(tokenizer.mask_token)
    whole = ["".join(t + mask * n for t, n in zip(texts, [*lengths, 0], strict=True)) for texts, lengths in parts]
    ids: list[list[int]] = tokenizer(whole, truncation=False, verbose=False)["input_ids"] if whole else []
    return ids


def finish_layout(
    texts: Sequence[str],
    lengths: Sequence[int],
    ids: list[int],
    vocabulary: Vocabulary,
    max_length: int,
    allow_unknown: bool = False,
) -> Layout:
    """The layout of a text whose ``ids`` are known; see :func:`layout`."""
    tokenizer = vocabulary.tokenizer
    if len(ids) > max_length:
        blanks = sum(lengths)
        raise AnyorderError(
            f"the text takes {len(ids)} tokens ({blanks} of them blanks), but the model holds {max_length}: shorten it"
        )
    if not allow_unknown:
        refuse_unknown(ids, texts, tokenizer)
    masks = [p for p, token in enumerate(ids) if token == tokenizer.mask_token_id]
    if len(masks) != sum(lengths):
        mask = str(tokenizer.mask_token)
        raise AnyorderError(f"the tokenizer does not keep its mask token {mask!r} whole: choose another checkpoint")
    cut = iter(masks)
    slots = tuple(tuple(itertools.islice(cut, n)) for n in lengths)
    return Layout(torch.tensor(ids), slots, tuple(texts))


def refuse_unknown(ids: Sequence[int], texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> None:
    """Name the first word of the user's that became the unknown token."""
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown not in ids:
        return
    words = " ".join(texts).split()
    word = next((w for w in words if unknown in tokenizer.encode(w, add_special_tokens=False)), None)
    if word is None:
        raise AnyorderError("the tokenizer cannot represent the white space of the text: write it without")
    shown = word if len(word) <= 40 else word[:37] + "..."
    raise AnyorderError(
        f"the tokenizer cannot represent {shown!r}: use another word, or --allow-unknown to let it stand as "
        f"{tokenizer.unk_token}"
    )


def allowed(
    layout: Layout,
    vocabulary: Vocabulary,
    *,
    whole_words: bool = True,
    special_tokens: bool = False,
) -> Tensor:
    """[N, V] bool: the tokens each position may take (everything at positions that are given).

    Args:
        layout: the text and its blanks.
        vocabulary: its word boundaries.
        whole_words: the first token of a blank must begin a word where the blank stands as one, and continue the
            word it is written onto where it does not. Tokens further into a blank are free.
        special_tokens: also allow ``[SEP]`` and its like, as fill-mask does.
    """
    table = vocabulary.fits[kinds(layout, vocabulary, whole_words)]
    if not special_tokens:
        table[layout.free] &= ~vocabulary.special
    return table


def kinds(layout: Layout, vocabulary: Vocabulary, whole_words: bool = True) -> Tensor:
    """[N] the kind of token that may stand at each position, see :attr:`Vocabulary.fits`."""
    kind = torch.full((len(layout.tokens),), ANY)
    started = False
    for before, run in zip(layout.texts, layout.slots, strict=False):
        # Only the very first words stand at the start of a text; a line break further on is a space like others.
        left = "." + before if started and before != "" else before
        adjacent = started and before == ""
        started = started or before != "" or len(run) > 0
        if run and whole_words and not adjacent:
            # A tokenizer whose mask keeps the space to its left has already spelt the mark of a new word.
            detached = run[0] > 0 and vocabulary.pieces[int(layout.tokens[run[0] - 1])] in ("Ġ", "▁")
            kind[run[0]] = CONTINUES if detached else vocabulary.kind(left)
    return kind
