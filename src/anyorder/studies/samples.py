"""What a model card shows rather than claims: figures on held-out text, and unselected samples.

Held-out blocks are taken evenly spread over the validation part, blanks where a seeded generator puts them, and seeds
count from 0: nothing here looks at what comes out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyorder.scoring.chain import chain, left_to_right, random_ranks
from anyorder.scoring.seeds import generator_for
from anyorder.stats import Interval, perplexity, wilson
from anyorder.tasks.lm import MaskedLM
from anyorder.training.data import evenly

SCATTER = "The quick brown fox jumps over the lazy dog"
BEGIN, END = "Tom is a cat and Jerry is a mouse.", "They became good friends."
_ROWS = 8  # blocks scored at once
_LONGEST = 30  # words of a sentence with blanks


def order_perplexity(lm: MaskedLM, blocks: Sequence[np.ndarray], order: str) -> Interval:
    """Perplexity of blocks, each along one order: ``sequential`` or ``random``."""
    log_probs: list[float] = []
    counts: list[int] = []
    for tokens, free in _parts(lm, blocks):
        if order == "sequential":
            rank = left_to_right(free)
        else:
            rank = random_ranks(free, [generator_for(0, row) for row in tokens.tolist()])
        log_probs += chain(lm.conditionals, tokens, free, rank).sum(1).tolist()
        counts += free.sum(1).tolist()
    return Interval(*perplexity(log_probs, counts))


def blank_accuracy(lm: MaskedLM, blocks: Sequence[np.ndarray]) -> Interval:
    """How often the likeliest token is the right one where a single token of a block, chosen uniformly, is masked."""
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for tokens, free in _parts(lm, blocks):
        place = torch.multinomial(free.double(), 1, generator=generator)
        truth = tokens.gather(1, place)
        log_q = lm.conditionals(tokens.scatter(1, place, lm.conditionals.mask_id), place)
        hits += int((log_q.argmax(-1) == truth).sum())
    return Interval(hits / len(blocks), *wilson(hits, len(blocks)))


def _parts(lm: MaskedLM, blocks: Sequence[np.ndarray]) -> Iterator[tuple[Tensor, Tensor]]:
    """A few blocks at once, [B, N], and which of their tokens are words."""
    special = torch.tensor(lm.tokenizer.all_special_ids)
    for start in range(0, len(blocks), _ROWS):
        part = [torch.tensor(block.tolist()) for block in blocks[start : start + _ROWS]]
        # Without a padding token blocks are of one length, and what would fill them up does not matter.
        tokens = pad_sequence(part, True, lm.conditionals.pad_id or 0)
        yield tokens, ~torch.isin(tokens, special)


@dataclass(frozen=True)
class Filled:
    """A held-out sentence with blanks, what stood there, and what the model puts there."""

    text: str
    truth: tuple[str, ...]
    found: tuple[str, ...]


def filled_blanks(lm: MaskedLM, blocks: Sequence[np.ndarray], blanks: int, count: int) -> list[Filled]:
    """``count`` sentences with ``blanks`` words of one token each masked at random, and the best joint filling."""
    generator = np.random.default_rng((0, blanks))
    sentences = _sentences(lm, blocks, shortest=max(8, 2 * blanks))
    out = []
    for words in (sentences[i] for i in evenly(0, len(sentences), count)):
        single = [i for i, word in enumerate(words) if word.isalpha() and len(lm.tokenizer.tokenize(word)) == 1]
        places = sorted(generator.choice(single, min(blanks, len(single)), replace=False).tolist())
        text = " ".join("___" if i in places else word for i, word in enumerate(words))
        best = lm.fill(text, top=1)[0]
        out.append(Filled(text, tuple(words[i] for i in places), tuple(best.fills)))
    return out


def _sentences(lm: MaskedLM, blocks: Sequence[np.ndarray], shortest: int) -> list[list[str]]:
    """The first whole sentence of each held-out block, as words, if it is of a length to be read."""
    found = []
    for block in blocks:
        text = cast(str, lm.tokenizer.decode(block, skip_special_tokens=True))
        # A block may begin in the middle of a sentence: what follows the first full stop is whole.
        parts = re.split(r"(?<=[.!?]) +", text)[1:-1]
        words = parts[0].split() if parts else []
        if shortest <= len(words) <= _LONGEST and sum(word.isalpha() for word in words) >= shortest:
            found.append(words)
    return found


def texts(lm: MaskedLM, use: str, count: int) -> list[str]:
    """``count`` texts, seeds from 0: ``scatter`` (Figure 1), ``begin-end`` (Figure 4) or ``paragraph``."""
    options: dict[str, dict] = {
        "scatter": {"scatter": SCATTER, "length": 48},
        "begin-end": {"begin": BEGIN, "end": END, "length": 48},
        "paragraph": {"length": 64},
    }
    return [one.text for one in lm.generate(samples=count, order="random", allow_unknown=True, **options[use])]
