"""Which pairs of tokens of a data file are looked at (section 3.1): random ones, or random contiguous ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError, choose
from anyorder.files.reading import Source
from anyorder.scoring.seeds import generator_for
from anyorder.tasks.options import SCHEMES

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

_CHUNK = 1000  # lines given to the tokenizer at once


@dataclass(frozen=True, eq=False)
class Example:
    """A text and the positions S that are masked in it, two of them unless said otherwise, in ascending order."""

    line: int  # in the file, from 1
    tokens: Tensor  # [N] with the gold tokens in place
    positions: tuple[int, ...]

    @property
    def a(self) -> int:
        """The first position."""
        return self.positions[0]

    @property
    def b(self) -> int:
        """The last position."""
        return self.positions[-1]

    @property
    def gold(self) -> tuple[int, ...]:
        """The tokens w_S."""
        return tuple(int(self.tokens[p]) for p in self.positions)

    @property
    def distance(self) -> int:
        """Tokens between the first and the last, 0 if they are adjacent (appendix E)."""
        return self.b - self.a - 1


class Drawn(NamedTuple):
    """The examples of a file, and how many lines on the way could not be used."""

    examples: list[Example]
    # Lines by reason: empty; short, one token only, or no two adjacent ones; long, more tokens than the model takes.
    skipped: dict[str, int]


def draw_examples(lm: MaskedLM, path: str, scheme: str, n: int, seed: int, size: int = 2, each: int = 1) -> Drawn:
    """``n`` examples from lines of a file in random order, ``each`` per line; fewer if the file has fewer usable lines.

    Which pair a line gives depends on the line and the seed only, so that runs of different length share examples.
    """
    choose(scheme, SCHEMES, "scheme")
    lines = list(Source(path))
    special = torch.tensor(lm.tokenizer.all_special_ids, dtype=torch.long)
    order = torch.randperm(len(lines), generator=torch.Generator().manual_seed(seed)).tolist()
    texts = [(i + 1, text) for i in order if (text := lines[i].strip())]
    counts = {"empty": len(lines) - len(texts), "short": 0, "long": 0}
    examples: list[Example] = []
    # The whole file is looked at even when enough was found, so that what is counted does not depend on n.
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        encoded = lm.tokenizer([text for _, text in chunk], truncation=False, verbose=False)["input_ids"]
        for (number, text), ids in zip(chunk, encoded, strict=True):
            tokens = torch.tensor(ids, dtype=torch.long)
            places = torch.nonzero(~torch.isin(tokens, special)).squeeze(1)
            generator = generator_for(seed, scheme, size, text)
            if len(ids) > lm.max_length:
                counts["long"] += 1
                continue
            drawn = {draw(places, scheme, size, generator) for _ in range(each)}  # the same pair counts once
            if None in drawn:
                counts["short"] += 1
            examples += [Example(number, tokens, p) for p in sorted(filter(None, drawn))][: n - len(examples)]
    if not examples:
        raise AnyorderError(
            f"{path} has no line with {size} tokens to mask ({counts['empty']} empty, {counts['short']} too short, "
            f"{counts['long']} too long for the model): give a file with one sentence per line"
        )
    return Drawn(examples, counts)


def draw(places: Tensor, scheme: str, size: int, generator: torch.Generator) -> tuple[int, ...] | None:
    """``size`` of the text positions ``places``, in ascending order; None if there are too few."""
    if scheme == "random":
        if len(places) < size:
            return None
        return tuple(sorted(places[torch.randperm(len(places), generator=generator)[:size]].tolist()))
    starts = runs(places, size)
    if len(starts) == 0:
        return None
    start = int(starts[torch.randint(len(starts), (1,), generator=generator)])
    return tuple(range(start, start + size))


def runs(places: Tensor, size: int) -> Tensor:
    """Where ``size`` adjacent positions of ``places`` begin."""
    return places[: len(places) - size + 1][(places[size - 1 :] - places[: len(places) - size + 1]) == size - 1]


def text_pairs(lm: MaskedLM, text: str) -> Iterator[Example]:
    """Every adjacent pair of a text without blanks."""
    tokens = torch.tensor(lm.tokenizer(text, truncation=False, verbose=False)["input_ids"], dtype=torch.long)
    if len(tokens) > lm.max_length:
        raise AnyorderError(f"the text takes {len(tokens)} tokens, but the model holds {lm.max_length}: shorten it")
    special = torch.tensor(lm.tokenizer.all_special_ids, dtype=torch.long)
    for start in runs(torch.nonzero(~torch.isin(tokens, special)).squeeze(1), 2).tolist():
        yield Example(1, tokens, (start, start + 1))
