"""Liao et al.'s Table 4: the time to write texts, and how good they are, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.metrics.text import adjacent_repeats, distinct_n, unigram_entropy
from anyorder.stats import perplexity
from anyorder.studies.causal import causal_sample, causal_terms, is_causal, load_causal

if TYPE_CHECKING:
    from anyorder.types import Sampler

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Latency:
    """One line of the table.

    Attributes:
        model: its name.
        sampler: ``left-to-right, cached``, ``any-order`` or ``parallel``.
        steps: model calls a text takes.
        texts: how many were written.
        tokens: of each text, special ones not counted.
        seconds: for all texts.
        perplexity: of the texts under the judge, with its 95 % interval ``low`` to ``high``. Dull text is probable
            text, so it is read beside the next three.
        entropy: of a text's own token frequencies, in nats.
        distinct_2: distinct pairs of neighbouring tokens, as a share of all.
        stutter: share of tokens that repeat their left neighbour.
    """

    model: str
    sampler: str
    steps: int
    texts: int
    tokens: int
    seconds: float
    perplexity: float
    low: float
    high: float
    entropy: float
    distinct_2: float
    stutter: float

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return asdict(self)


def latency(
    models: dict[str, Path],
    judge: Path,
    *,
    texts: int = 100,
    length: int = 128,
    batch: int = 100,
    steps: Sequence[int] = (8, 16, 32, 64),
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Latency]:
    """Write ``texts`` texts of ``length`` tokens with every model and sampler, time each, and judge the texts.

    Args:
        models: Name to checkpoint. A causal model writes left to right with its cache; a masked one in random order,
            one token a step, and in parallel at each of ``steps``.
        judge: A causal model with the same tokenizer, whose perplexity of the texts is reported.
        texts: How many.
        length: Tokens of each, special ones included.
        batch: Texts written together.
        steps: Of parallel decoding.
        seed: Of every draw.
        progress: Called with (name, texts done, texts).
    """
    judging = load_causal(judge)
    lines = []
    for name, path in models.items():
        for sampler, calls, write in _writers(path, length, steps):
            write(min(batch, 2), torch.Generator().manual_seed(seed))  # the first call pays for allocations
            generator = torch.Generator().manual_seed(seed)
            written: list[Tensor] = []
            began = time.perf_counter()
            for start in range(0, texts, batch):
                written.append(write(min(batch, texts - start), generator))
                if progress is not None:
                    progress(f"{name} {sampler} {calls}", min(start + batch, texts), texts)
            seconds = time.perf_counter() - began
            tokens = torch.cat(written)  # [texts, 1 + n]
            free = torch.ones_like(tokens, dtype=torch.bool)
            free[:, 0] = False
            log_p = causal_terms(judging, tokens, free, pad_id=None).sum(-1)
            rows = tokens[:, 1:].tolist()
            quality = unigram_entropy(rows), distinct_n(rows, 2), adjacent_repeats(rows)
            value = perplexity(log_p.tolist(), [len(rows[0])] * texts)
            lines.append(Latency(name, sampler, calls, texts, len(rows[0]), seconds, *value, *quality))
    return lines


def _writers(
    path: Path, length: int, steps: Sequence[int]
) -> list[tuple[str, int, Callable[[int, torch.Generator], Tensor]]]:
    """(sampler, model calls, (rows, generator) -> [rows, 1 + n] start mark and text) for one checkpoint."""
    import anyorder
    from anyorder.conditionals.wrappers import ban
    from anyorder.samplers import any_order, parallel, run
    from anyorder.tasks.pieces import affixes
    from anyorder.training.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(path)
    before, after = affixes(tokenizer)
    n = length - len(before) - len(after)
    if n < 1 or len(before) != 1:
        raise AnyorderError(f"{path}: texts of {length} tokens need room and one token, like [CLS], to begin with")
    if is_causal(path):
        model = load_causal(path)

        def cached(rows: int, generator: torch.Generator) -> Tensor:
            start = torch.tensor(before).expand(rows, 1)
            return causal_sample(model, start, n, generator, tokenizer.all_special_ids)

        return [("left-to-right, cached", n, cached)]

    lm = anyorder.load(str(path))
    q = ban(lm.conditionals, tokenizer.all_special_ids)
    row = torch.tensor([before + [q.mask_id] * n + after])

    def writer(sampler: Sampler) -> Callable[[int, torch.Generator], Tensor]:
        def write(rows: int, generator: torch.Generator) -> Tensor:
            tokens = row.expand(rows, -1)
            done = run(sampler, tokens, tokens == q.mask_id, generator=generator, trace=False).tokens
            return done[:, : 1 + n]

        return write

    lines = [("any-order", n, writer(any_order(q, order="random")))]
    return lines + [("parallel", k, writer(parallel(q, steps=k))) for k in steps if k < n]
