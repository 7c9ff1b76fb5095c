"""The curve of a model and what parallel decoding costs by it: L(t), and the price of each schedule against steps.

Every text is read at the same numbers t of visible tokens, along one random order σ of its own: the first t of σ are
visible, and the loss is the mean over all others, which is unbiased for L(t). So every text has a curve of its own, and
the error of a price, which is linear in the losses, is that of a mean over texts.

On held-out texts the price is what decoding by blocks adds to the model's loss on such texts; if they come from the
model's own law it is the divergence of ``metrics/schedules.py``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from anyorder.errors import AnyorderError
from anyorder.metrics.curve import Curve
from anyorder.metrics.schedules import FORMULAS, SCHEDULES, optimal, price
from anyorder.scoring.ask import all_at_once
from anyorder.scoring.chain import random_ranks
from anyorder.scoring.seeds import generator_for
from anyorder.stats import Record, mean_estimate
from anyorder.studies.characters import paragraphs
from anyorder.tasks.pieces import affixes
from anyorder.training.data import evenly

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

LENGTH = 64  # tokens of a text, as `generate` writes them
TEXTS = 256
_POINTS = 17  # of the curve, at most
_ROWS = 8  # texts asked together


@dataclass(frozen=True)
class MeasuredCurve:
    """The curve, and each text's own."""

    curve: Curve
    each: np.ndarray  # [texts, points]


@dataclass(frozen=True)
class Price(Record):
    """What a schedule loses at a number of steps, in nats per text."""

    schedule: str
    steps: int
    price: float
    standard_error: float
    per_token: float
    blocks: tuple[int, ...]


def points(length: int) -> list[int]:
    """Numbers of visible tokens, from none to all but one, denser at both ends, where a curve bends."""
    if length <= _POINTS:
        return list(range(length))
    last = _POINTS - 1
    return sorted({round((length - 1) * (1 - math.cos(math.pi * j / last)) / 2) for j in range(_POINTS)})


def read_texts(lm: MaskedLM, path: Path, share: float | None = None, count: int = TEXTS) -> list[list[int]]:
    """Texts of a file as tokens without special ones, many more than are needed: some are too short."""
    lines = paragraphs(path, share, 32 * count)
    return list(lm.tokenizer(lines, add_special_tokens=False, truncation=False, verbose=False)["input_ids"])


def measure_curve(
    lm: MaskedLM,
    texts: Sequence[Sequence[int]],
    *,
    length: int | None = None,
    count: int = TEXTS,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> MeasuredCurve:
    """Measure the curve of ``lm``.

    Args:
        lm: The model.
        texts: Tokens of held-out texts without special ones; those of at least ``length`` tokens are cut to it.
        length: Tokens; :data:`LENGTH` if None, or less where most texts or the model are shorter.
        count: At most this many of the texts, evenly spread.
        seed: Of the orders; a text's order depends on nothing else but itself.
        progress: Called with the texts done, and with all.
    """
    before, after = affixes(lm.tokenizer)
    room = lm.max_length - len(before) - len(after)
    n = length or min(LENGTH, room, statistics.median_low(map(len, texts)) if texts else 0)
    if n > room:
        raise AnyorderError(f"texts of {n} tokens do not fit the model, which takes {room}: lower --length")
    long = [text for text in texts if len(text) >= n > 1]
    if len(long) < 2:
        raise AnyorderError(f"only {len(long)} of the texts have {n} tokens: give more texts, or lower --length")
    chosen = [[*before, *long[i][:n], *after] for i in evenly(0, len(long), count)]
    parts = []
    for start in range(0, len(chosen), _ROWS):
        parts.append(_curves(lm, torch.tensor(chosen[start : start + _ROWS]), len(before), n, seed))
        progress(min(start + _ROWS, len(chosen)), len(chosen))
    each = np.concatenate(parts)
    return MeasuredCurve(_curve(each, n), each)


def _curves(lm: MaskedLM, tokens: torch.Tensor, first: int, n: int, seed: int) -> np.ndarray:
    """[B, points] each text's loss at each number of visible tokens."""
    free = torch.zeros(tokens.shape, dtype=torch.bool)
    free[:, first : first + n] = True
    rank = random_ranks(free, [generator_for(seed, row) for row in tokens.tolist()])
    visible = torch.tensor(points(n))
    hidden = free[:, None] & (rank[:, None] >= visible[:, None])  # [B, points, N]
    log_q = all_at_once(lm.conditionals, tokens.repeat_interleave(len(visible), 0), hidden.flatten(0, 1))
    return (-log_q.view(hidden.shape).sum(-1) / (n - visible)).numpy()


def _curve(each: np.ndarray, n: int) -> Curve:
    """The mean over texts, made to fall: more to see cannot make a token harder to guess, noise apart."""
    from scipy.optimize import isotonic_regression

    estimates = [mean_estimate(column) for column in each.T]
    weights = [1 / max(one.standard_error, 1e-9) ** 2 for one in estimates]
    fitted = isotonic_regression([one.value for one in estimates], weights=weights, increasing=False).x
    errors = tuple(one.standard_error for one in estimates)
    return Curve(tuple(t / n for t in points(n)), tuple(fitted.tolist()), errors, tokens=n, texts=len(each))


def prices(measured: MeasuredCurve, steps: Sequence[int]) -> Iterator[Price]:
    """The price of every schedule at each number of steps up to one per token, for texts of the curve's own length."""
    curve = measured.curve
    n, losses = curve.tokens, curve.losses(curve.tokens)
    own = [replace(curve, loss=tuple(row)).losses(n) for row in measured.each]
    for count in (count for count in steps if count <= n):
        for name in SCHEDULES:
            blocks = optimal(losses, count) if name == "optimal" else FORMULAS[name](n, count)
            value = price(losses, blocks)
            error = mean_estimate([price(one, blocks) for one in own]).standard_error
            yield Price(name, count, value, error, value / n, blocks)
