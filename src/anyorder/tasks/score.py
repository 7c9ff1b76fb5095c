"""Scores of texts: the logic behind ``lm.score`` and ``anyorder score``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.scoring.bound import bound
from anyorder.scoring.chain import chain, left_to_right, random_ranks
from anyorder.scoring.pseudo import pll, pll_word
from anyorder.scoring.seeds import generator_for
from anyorder.stats import widening
from anyorder.tasks.html import coloured, table
from anyorder.tasks.options import ScoreOptions
from anyorder.tasks.pieces import Piece, pieces
from anyorder.tasks.reading import reader
from anyorder.tasks.rows import padded
from anyorder.types import Conditionals, Ordered

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

BATCH = 2**20  # tokens of all rows of a batch, as masks in memory: 8 MB of ids at a time
ENOUGH = 1024  # tokens that keep a model busy; from there on a batch is not worth padding its rows for
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Score:
    """How probable a text is.

    Attributes:
        text: the text.
        method: one of those of :class:`anyorder.tasks.options.ScoreOptions`.
        log_prob: in nats; a pseudo-log-likelihood for ``pll`` and ``pll-word``.
        standard_error: of ``log_prob`` where it is estimated, else 0; ± 1.96 of it is a 95 % interval.
        tokens: how many were scored.
        windows: in how many rows the text was read; more than 1 if it is longer than the model.
        reading: how the model was read, ``full`` or, by the chain, ``ordered``: two models for what they say.
        per_token: (token, log-probability) in reading order, if asked for.
    """

    text: str
    method: str
    log_prob: float
    standard_error: float
    tokens: int
    windows: int = 1
    reading: str = "full"
    per_token: tuple[tuple[str, float], ...] | None = None

    @property
    def perplexity(self) -> float:
        """exp(-log_prob / tokens); NaN for a text without tokens."""
        return math.exp(-self.log_prob / self.tokens) if self.tokens else math.nan

    def __repr__(self) -> str:
        error = f" ± {self.standard_error:.3g}" if self.standard_error else ""
        return f"Score({self.text!r}, {self.method}, log_prob={self.log_prob:.4f}{error}, tokens={self.tokens})"

    def cells(self) -> dict[str, str]:
        """A row of a table."""
        error = {"±": f"{self.standard_error:.2g}"} if self.standard_error else {}
        return {"log_prob": f"{self.log_prob:.3f}", **error, "tokens": str(self.tokens), "text": self.text}

    def _repr_html_(self) -> str:
        """Its row, and below it the tokens coloured by surprisal, if they were asked for (``per_token``)."""
        return table([self.cells()]) + ("" if self.per_token is None else coloured(self.per_token))

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON; ``windows``, ``reading`` and ``per_token`` only where they say something."""
        out = {name: getattr(self, name) for name in ("text", "method", "log_prob", "standard_error", "tokens")}
        if self.windows > 1:
            out["windows"] = self.windows
        if self.method == "chain":
            out["reading"] = self.reading
        if self.per_token is not None:
            out["per_token"] = [{"token": token, "log_prob": value} for token, value in self.per_token]
        return out


@dataclass(frozen=True)
class Method:
    """Which score of tokens, and how much work to spend on it; see :class:`anyorder.tasks.options.ScoreOptions`."""

    name: str = "chain"
    order: str = "left-to-right"  # of the chain
    samples: int | None = None  # masks of the bound (16), or random orders of the chain (1)
    seed: int = 0
    # The same masks or order for texts of one length: their differences are sharper, their sum over a corpus is not.
    common: bool = False
    reading: str = "auto"  # of the chain: one of tasks.options.READINGS

    @classmethod
    def of(cls, options: ScoreOptions, common: bool = False) -> Method:
        """The method that was asked for."""
        return cls(options.method, options.order, options.samples, options.seed, common, options.reading)

    @property
    def repeats(self) -> int:
        """Masks or orders per text."""
        return self.samples or (16 if self.name == "bound" else 1)

    def rows(self, piece: Piece) -> int:
        """Rows sent through the model for one piece."""
        if self.name == "bound":
            return self.repeats
        if self.reading == "ordered":
            return 2 * self.repeats  # tokens, and as many questions
        return self.repeats * piece.scored

    def __call__(
        self, conditionals: Conditionals | Ordered, tokens: Tensor, free: Tensor, words: Tensor, keys: Sequence[Piece]
    ) -> tuple[Tensor, Tensor]:
        """[B, N] the terms of each row's score, and [B] the standard errors of their sums."""
        # A row's randomness comes from its own tokens, so that its place in a file or a batch does not matter.
        generators = [
            generator_for(self.seed, piece.start, len(piece.tokens) if self.common else piece.tokens) for piece in keys
        ]
        if self.name == "chain" or isinstance(conditionals, Ordered):
            return self._chain(conditionals, tokens, free, generators)
        if self.name == "bound":
            return bound(conditionals, tokens, free, generators, self.repeats)
        exact = torch.zeros(len(tokens), dtype=torch.float64)
        if self.name == "pll":
            return pll(conditionals, tokens, free), exact
        return pll_word(conditionals, tokens, free, words), exact

    def _chain(
        self,
        conditionals: Conditionals | Ordered,
        tokens: Tensor,
        free: Tensor,
        generators: Sequence[torch.Generator],
    ) -> tuple[Tensor, Tensor]:
        exact = torch.zeros(len(tokens), dtype=torch.float64)
        if self.order != "random":
            rank = left_to_right(free)
            return chain(conditionals, tokens, free, rank if self.order == "left-to-right" else -rank), exact
        n = self.repeats
        each = [generator for generator in generators for _ in range(n)]
        tokens, free = tokens.repeat_interleave(n, 0), free.repeat_interleave(n, 0)
        terms = chain(conditionals, tokens, free, random_ranks(free, each)).unflatten(0, (-1, n))
        if n == 1:
            return terms[:, 0], exact
        return terms.mean(1), terms.sum(-1).std(1) / math.sqrt(n) * widening(float(n - 1))


def score(
    lm: MaskedLM,
    texts: Sequence[str],
    options: ScoreOptions,
    *,
    common: bool = False,
    first: int = 1,
    progress: Progress | None = None,
) -> list[Score]:
    """Score texts in bounded memory, sorted by length into batches; the answer is in the order of ``texts``.

    Args:
        lm: The model.
        texts: Any strings; an empty one scores 0 over 0 tokens.
        options: What to compute; for ``stride`` see :func:`anyorder.tasks.pieces.pieces`.
        common: As of :class:`Method`.
        first: The number of the first text in error messages.
        progress: Called with the number of texts finished so far, now and then.
    """
    method = Method.of(options, common)
    asked, reading = reader(lm, method.reading, method.name, method.name == "chain")
    method = replace(method, reading=reading)
    rows = pieces(lm.tokenizer, texts, lm.max_length, stride=options.stride, strict=options.strict, first=first)
    if any(lm.tokenizer.unk_token_id in piece.tokens[piece.start : piece.stop] for piece in rows):
        said = f"words that the tokenizer cannot represent are scored as {lm.tokenizer.unk_token}"
        warnings.warn(said, stacklevel=4)  # where lm.score is called
    terms: list[list[tuple[str, float]]] = [[] for _ in texts]
    log_prob, variance, windows = [0.0] * len(texts), [0.0] * len(texts), [0] * len(texts)

    def report(done: int) -> None:
        if progress is not None:
            progress(len(texts) * done // len(rows))

    for piece, (values, error) in zip(rows, score_pieces(asked, rows, method, report), strict=True):
        log_prob[piece.text] += math.fsum(values)
        variance[piece.text] += error**2
        windows[piece.text] += 1
        names = lm.tokenizer.convert_ids_to_tokens(piece.tokens[piece.start : piece.stop])
        terms[piece.text] += zip(names, values, strict=True)
    return [
        Score(
            text=text,
            method=method.name,
            log_prob=log_prob[i],
            standard_error=math.sqrt(variance[i]),
            tokens=len(terms[i]),
            windows=max(1, windows[i]),
            reading=reading,
            per_token=tuple(terms[i]) if options.per_token else None,
        )
        for i, text in enumerate(texts)
    ]


def score_pieces(
    conditionals: Conditionals | Ordered, rows: Sequence[Piece], method: Method, progress: Progress | None = None
) -> list[tuple[list[float], float]]:
    """For each row the terms of its scored tokens, and the standard error of their sum."""
    answers: dict[int, tuple[list[float], float]] = {}
    for batch in batches(rows, method, conditionals.pad_id):
        chosen = [rows[i] for i in batch]
        values, errors = method(conditionals, *pad(chosen, conditionals.pad_id), chosen)
        for i, piece, value, error in zip(batch, chosen, values.tolist(), errors.tolist(), strict=True):
            answers[i] = (value[piece.start : piece.stop], error)
        if progress is not None:
            progress(len(answers))
    return [answers[i] for i in range(len(rows))]


def batches(rows: Sequence[Piece], method: Method, pad_id: int | None) -> Iterator[list[int]]:
    """Indices of pieces, by length, in batches whose rows together hold at most ``BATCH`` tokens.

    A batch that has ``ENOUGH`` tokens ends where the next piece is over an eighth longer than its first, so that
    padding stays a small part of the work.
    """
    batch: list[int] = []
    cost = 0
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i].tokens)):
        length = len(rows[i].tokens)
        more = method.rows(rows[i]) * length
        first = len(rows[batch[0]].tokens) if batch else length
        # Without a padding token only rows of one length go together.
        unlike = length != first if pad_id is None else cost >= ENOUGH and 8 * length > 9 * first
        if batch and (cost + more > BATCH or unlike):
            yield batch
            batch, cost = [], 0
        batch.append(i)
        cost += more
    if batch:
        yield batch


def pad(rows: Sequence[Piece], pad_id: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Pieces -> tokens [B, N], free [B, N] and words [B, N]."""
    tokens = padded([torch.tensor(piece.tokens) for piece in rows], pad_id)
    words = padded([torch.tensor(piece.words) for piece in rows], -1)
    index = torch.arange(tokens.shape[1])
    start = torch.tensor([piece.start for piece in rows])[:, None]
    stop = torch.tensor([piece.stop for piece in rows])[:, None]
    return tokens, (index >= start) & (index < stop), words
