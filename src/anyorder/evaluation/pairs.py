"""Which pairs of tokens of a data file are looked at (section 3.1): random ones, or random contiguous ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.scoring.reading import Source
from anyorder.scoring.seeds import generator_for

if TYPE_CHECKING:
    from anyorder.lm import MaskedLM

SCHEMES = ("random", "contiguous")
_CHUNK = 1000  # lines given to the tokenizer at once


@dataclass(frozen=True, eq=False)
class Example:
    """A text and the two positions S = (a, b), a < b, that are masked in it."""

    line: int  # in the file, from 1
    tokens: Tensor  # [N] with the gold tokens in place
    a: int
    b: int

    @property
    def gold(self) -> tuple[int, int]:
        """(w_a, w_b)."""
        return int(self.tokens[self.a]), int(self.tokens[self.b])

    @property
    def distance(self) -> int:
        """Tokens between the two, 0 if they are adjacent (appendix E)."""
        return self.b - self.a - 1


@dataclass(frozen=True)
class Drawn:
    """The examples of a file, and how many lines on the way could not be used."""

    examples: list[Example]
    empty: int = 0
    short: int = 0  # one token only, or no two adjacent ones
    long: int = 0  # more tokens than the model takes

    @property
    def skipped(self) -> dict[str, int]:
        """Lines left out, by reason."""
        return {"empty": self.empty, "short": self.short, "long": self.long}


def draw_examples(lm: MaskedLM, path: str, scheme: str, n: int, seed: int) -> Drawn:
    """``n`` examples from lines of a file in random order; fewer if the file has fewer usable lines.

    Which pair a line gives depends on the line and the seed only, so that runs of different length share examples.
    """
    if scheme not in SCHEMES:
        raise AnyorderError(f"unknown scheme {scheme!r}: choose one of {', '.join(SCHEMES)}")
    lines = list(Source(path))
    special = torch.tensor(lm.tokenizer.all_special_ids, dtype=torch.long)
    order = torch.randperm(len(lines), generator=torch.Generator().manual_seed(seed)).tolist()
    counts = {"empty": 0, "short": 0, "long": 0}
    examples: list[Example] = []
    # The whole file is looked at even when enough was found, so that what is counted does not depend on n.
    for start in range(0, len(order), _CHUNK):
        chunk = [(i, lines[i].strip()) for i in order[start : start + _CHUNK]]
        counts["empty"] += sum(not text for _, text in chunk)
        chunk = [(i, text) for i, text in chunk if text]
        encoded = (
            lm.tokenizer([text for _, text in chunk], truncation=False, verbose=False)["input_ids"] if chunk else []
        )
        for (number, text), ids in zip(chunk, encoded, strict=True):
            tokens = torch.tensor(ids, dtype=torch.long)
            pairs = candidates(tokens, special, scheme) if len(ids) <= lm.max_length else None
            if pairs is None or len(pairs) == 0:
                counts["long" if pairs is None else "short"] += 1
            elif len(examples) < n:
                pick = int(torch.randint(len(pairs), (1,), generator=generator_for(seed, scheme, text)))
                a, b = pairs[pick].tolist()
                examples.append(Example(number + 1, tokens, a, b))
    if not examples:
        raise AnyorderError(
            f"{path} has no line with two tokens to mask ({counts['empty']} empty, {counts['short']} too short, "
            f"{counts['long']} too long for the model): give a file with a sentence a line"
        )
    return Drawn(examples, **counts)


def candidates(tokens: Tensor, special: Tensor, scheme: str) -> Tensor:
    """[P, 2] the pairs (a, b), a < b, of text positions that ``scheme`` may draw."""
    places = torch.nonzero(~torch.isin(tokens, special)).squeeze(1)
    if scheme == "random":
        return torch.combinations(places, 2)
    pairs = torch.stack([places[:-1], places[1:]], 1)
    return pairs[pairs[:, 1] == pairs[:, 0] + 1]


def text_pairs(lm: MaskedLM, text: str) -> Iterator[Example]:
    """Every adjacent pair of a text without blanks."""
    tokens = torch.tensor(lm.tokenizer(text, truncation=False, verbose=False)["input_ids"], dtype=torch.long)
    if len(tokens) > lm.max_length:
        raise AnyorderError(f"the text takes {len(tokens)} tokens, but the model holds {lm.max_length}: shorten it")
    special = torch.tensor(lm.tokenizer.all_special_ids, dtype=torch.long)
    for a, b in candidates(tokens, special, "contiguous").tolist():
        yield Example(1, tokens, a, b)
