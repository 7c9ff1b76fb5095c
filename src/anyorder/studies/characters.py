"""Nats per character of the any-order bound: one figure for models whose tokens differ.

A text's any-order bound (Liao et al. 2020, eq 8; Uria et al. 2014) is an upper bound on its surprisal in nats, whatever
its tokens are; divided by characters it compares models across tokenizers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.errors import AnyorderError, count
from anyorder.stats import Record, perplexity
from anyorder.tasks.options import ScoreOptions
from anyorder.tasks.score import score
from anyorder.training.data import evenly, split

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

Progress = Callable[[int], None]


@dataclass(frozen=True)
class PerCharacter(Record):
    """The bound of one set of texts, with a 95 % interval over texts."""

    name: str
    texts: int
    characters: int
    tokens: int
    nats_per_character: float
    low: float
    high: float
    nats_per_token: float


def paragraphs(path: Path, held_out: float | None = None, limit: int | None = None) -> list[str]:
    """The paragraphs of a file, of its last share of documents if only these were held out; evenly spread."""
    kept, held = split(path, "document" if held_out else "line", held_out or 0.0)
    every = [text for document in (held if held_out else kept) for text in document]
    return [every[i] for i in evenly(0, len(every), limit or len(every))]


def per_character(
    lm: MaskedLM, name: str, texts: Sequence[str], samples: int = 16, seed: int = 0, progress: Progress | None = None
) -> PerCharacter:
    """The bound of ``texts`` with ``samples`` masks each, in nats per character and per token."""
    if len(texts) < 2:
        raise AnyorderError(f"{name} has {count(len(texts), 'text')}, too few for an interval: give at least 2")
    scores = score(lm, texts, ScoreOptions("bound", samples=samples, seed=seed), progress=progress)
    log_probs, lengths = [one.log_prob for one in scores], [len(text) for text in texts]
    # nats per character are the logarithm of the perplexity of a character
    value, low, high = map(math.log, perplexity(log_probs, lengths))
    characters, tokens = sum(lengths), sum(one.tokens for one in scores)
    return PerCharacter(name, len(texts), characters, tokens, value, low, high, -sum(log_probs) / tokens)
