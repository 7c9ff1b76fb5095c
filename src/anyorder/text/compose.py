"""What is given and what is free in a text to generate: a prompt anywhere, words scattered, an acrostic."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.text.template import Layout, allowed, check_length, layout, parse
from anyorder.text.vocabulary import Vocabulary

# An ellipsis that stands alone marks where generated text goes; one written onto a word is the user's own.
_GAP = re.compile(r"(?<!\S)(?:\.\.\.|…)(?!\S)")
# Sequences of letters (proteins) have no words to write it onto, and no spaces around it.
_LETTER_GAP = re.compile(r"\s*(?:\.\.\.|…)\s*")
_ENDS = (".", "!", "?")
DEFAULT_LENGTH = 64
_LINE = 8  # tokens per line of an acrostic, unless a length is given
_SHORTEST_LINE = 3  # a first word, something, and a full stop


class Canvas(NamedTuple):
    """The tokens to start from, and what each free one may become."""

    layout: Layout
    allowed: Tensor  # [N, V] bool
    given: int = 0  # the first so many tokens are a text that was given, not part of what is written


class Frame(NamedTuple):
    """What every composition needs to know of the model."""

    vocabulary: Vocabulary
    max_length: int
    allow_unknown: bool = False

    @property
    def specials(self) -> int:
        """Tokens the tokenizer adds around a text."""
        return len(self.vocabulary.tokenizer("")["input_ids"])

    @property
    def gap(self) -> re.Pattern[str]:
        """How the user marks where text is generated."""
        return _LETTER_GAP if self.vocabulary.style == "character" else _GAP

    def room(self, length: int, option: str = "--length") -> int:
        """``length``, which ``option`` says, if the model holds that many tokens of text."""
        if length < 1:
            raise AnyorderError(f"a text has at least one token, not {length}: raise {option}")
        if length + self.specials > self.max_length:
            raise AnyorderError(
                f"{length} tokens do not fit the model, which holds {self.max_length - self.specials}: lower {option}"
            )
        return length

    def used(self, texts: list[str]) -> int:
        """Tokens the user's own words take."""
        check_length(" ".join(texts), self.vocabulary, self.max_length)
        # One mask per gap keeps the words on its two sides apart.
        tokens = layout(texts, [1] * (len(texts) - 1), self.vocabulary, sys.maxsize, self.allow_unknown).tokens
        return len(tokens) - self.specials - (len(texts) - 1)


def prompted(frame: Frame, prompt: str | None, begin: str | None, end: str | None, length: int | None) -> Canvas:
    """``begin``, then generated text around ``prompt``, then ``end`` (Figure 4 of Liao et al.).

    Args:
        frame: The model's limits.
        prompt: May hold blanks, and ``...`` wherever text is to be generated; without one the text goes on after it.
        begin: The first words.
        end: The last words.
        length: Tokens of the whole text, the user's included. None: 64, or only the blanks if there are some and no
            ``...``.
    """
    whole = " ".join(_around(frame, prompt, begin, end, length))
    texts: list[str] = []
    fixed: list[int | None] = []  # None: a gap that stretches
    for number, part in enumerate(frame.gap.split(whole)):
        template = parse(part, _mask(frame), frame.max_length)
        if any(b.low < b.high for b in template.blanks):
            raise AnyorderError("a text to generate has blanks of one length each: write ___{3}, or use anyorder fill")
        if number:
            fixed.append(None)
        texts += template.texts
        fixed += [b.low for b in template.blanks]
    if not fixed:
        raise AnyorderError("nothing to generate: write ... or ___ where text is missing, or give --length")
    gaps = fixed.count(None)
    taken = frame.used(texts) + sum(n for n in fixed if n is not None)
    share: Iterator[int] = iter(())
    if gaps:
        total = frame.room(length if length is not None else max(taken + gaps, _usual(frame)))
        if total < taken + gaps:
            raise AnyorderError(f"the given text takes {taken} of {total} tokens and leaves no room: raise --length")
        share = iter(_shares(total - taken, gaps))
    lengths = [next(share) if n is None else n for n in fixed]
    return _canvas(frame, texts, lengths, soft=frozenset(i for i, n in enumerate(fixed) if n is None))


def between(frame: Frame, before: str, after: str, count: int) -> Canvas:
    """``before``, then ``count`` tokens, then ``after``: both verbatim, nothing in them is read as a blank."""
    if _mask(frame) in before + after:
        raise AnyorderError(f"the text holds the mask token {_mask(frame)}: leave it out, or use fill")
    frame.room(frame.used([before, after]) + count, "--max-tokens")
    apart = "" if frame.vocabulary.style == "character" else " "
    opens = apart if before and not before[-1].isspace() else ""
    closes = apart if after[:1].isalnum() else ""
    return _canvas(frame, [before + opens, closes + after], [count], soft=frozenset({0} if opens else ()))


def _around(frame: Frame, prompt: str | None, begin: str | None, end: str | None, length: int | None) -> list[str]:
    """The parts in order, with ``...`` between them."""
    for text, name in ((prompt, "--prompt"), (begin, "--begin"), (end, "--end")):
        if text is not None and not text.strip():
            raise AnyorderError(f"the text of {name} is empty: write some words or leave it out")
    if begin is None and end is None:
        if prompt is None:
            return ["..."]
        template_only = length is None and parse(frame.gap.sub(" ", prompt), _mask(frame), frame.max_length).blanks
        return [prompt] if frame.gap.search(prompt) or template_only else [prompt, "..."]
    parts = [begin or "", *(["...", prompt] if prompt else []), "...", end or ""]
    return [part for part in parts if part]


def _mask(frame: Frame) -> str:
    return str(frame.vocabulary.tokenizer.mask_token)


def _usual(frame: Frame) -> int:
    return min(DEFAULT_LENGTH, frame.max_length - frame.specials)


def _shares(total: int, parts: int) -> list[int]:
    """``total`` cut into ``parts`` as evenly as whole numbers go."""
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]


def scattered(frame: Frame, words: str, length: int | None, generator: torch.Generator) -> Canvas:
    """The given words, in order, spread over a paragraph of ``length`` tokens (Figure 1 of Liao et al.).

    The paragraph is cut into as many cells as there are words, and each word stands at a random place in its cell.
    """
    given = [word for word in words.split() if not _GAP.fullmatch(word)]
    if not given:
        raise AnyorderError("no words to scatter: give some, such as --scatter 'The quick brown fox'")
    space = "" if frame.vocabulary.style == "character" else " "
    taken = frame.used(["", *(f"{space}{w}{space}" for w in given), ""])
    total = frame.room(length if length is not None else max(taken + 1, _usual(frame)))
    free = total - taken
    if free < 1:
        raise AnyorderError(f"the words take {taken} of {total} tokens and leave no room: raise --length")
    u = torch.rand(len(given), generator=generator, dtype=torch.float64)
    before = ((torch.arange(len(given)) + u) * free / len(given)).long().tolist()  # free tokens before each word
    lengths = [b - a for a, b in itertools.pairwise([0, *before, free])]
    texts = [""]
    for number, word in enumerate(given):
        # Between two words without a gap one space is enough, and none stands at the ends of the text.
        opens = space if lengths[number] else ""
        closes = space if lengths[number + 1] or number + 1 < len(given) else ""
        texts.append(opens + word + closes)
    return _canvas(frame, [*texts, ""], lengths, soft=frozenset(range(len(lengths))))


def drafted(frame: Frame, text: str, length: int | None) -> Canvas:
    """A text to rewrite: all of it is free and stands until it is drawn again; blanks are filled."""
    if length is not None:
        raise AnyorderError(
            "a draft brings its own length: leave --length out, or write ___{3} where words are missing"
        )
    if not text.strip():
        raise AnyorderError("the draft is empty: write some words or leave it out")
    template = parse(text, _mask(frame), frame.max_length)
    if any(b.low < b.high for b in template.blanks):
        raise AnyorderError("a draft has blanks of one length each: write ___{3}")
    check_length(" ".join(template.texts), frame.vocabulary, frame.max_length)
    lengths = [b.low for b in template.blanks]
    tokens = layout(template.texts, lengths, frame.vocabulary, frame.max_length, frame.allow_unknown).tokens
    canvas = _canvas(frame, ["", ""], [len(tokens) - frame.specials])
    return Canvas(replace(canvas.layout, tokens=tokens), canvas.allowed)


def acrostic(frame: Frame, word: str, length: int | None) -> Canvas:
    """A line for each letter of ``word``, a sentence each, whose first word begins with that letter."""
    letters = [c for c in word if not c.isspace()]
    if not letters:
        raise AnyorderError("the acrostic has no letters: give a word, such as --acrostic SEA")
    total = frame.room(length if length is not None else _LINE * len(letters))
    if total < _SHORTEST_LINE * len(letters):
        raise AnyorderError(
            f"{total} tokens are too few for {len(letters)} lines: give at least {_SHORTEST_LINE * len(letters)}"
        )
    lengths = _shares(total, len(letters))
    canvas = _canvas(frame, ["", *["\n"] * (len(letters) - 1), ""], lengths)
    rules = canvas.allowed
    surfaces = [frame.vocabulary.surface(t) if p else "" for t, p in enumerate(frame.vocabulary.pieces)]
    ends = torch.tensor([s in _ENDS for s in surfaces]) & ~frame.vocabulary.special
    for letter, run in zip(letters, canvas.layout.slots, strict=True):
        rules[run[0]] &= _beginning(letter, surfaces, rules[run[0]])
        if bool(ends.any()):
            # A sentence ends at the end of its line and nowhere else.
            rules[list(run[1:-1])] &= ~ends
            rules[run[-1]] = ends
    return canvas


def _beginning(letter: str, surfaces: list[str], fits: Tensor) -> Tensor:
    """[V] bool: words that begin with ``letter``, capitalised where the vocabulary has such."""
    for first in (letter.upper(), letter.lower(), letter):
        table = torch.tensor([s.startswith(first) and s.isalpha() for s in surfaces]) & fits
        if bool(table.any()):
            return table
    raise AnyorderError(f"no token of the vocabulary begins with {letter!r}: choose another word for the acrostic")


def _canvas(frame: Frame, texts: list[str], lengths: list[int], soft: frozenset[int] = frozenset()) -> Canvas:
    made = replace(layout(texts, lengths, frame.vocabulary, frame.max_length, frame.allow_unknown), soft=soft)
    rules = allowed(made, frame.vocabulary)
    if not bool(rules.any(-1).all()):
        raise AnyorderError("no token of the vocabulary fits beside the given text: put a space between them")
    return Canvas(made, rules)
