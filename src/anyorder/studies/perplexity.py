"""Liao et al.'s Tables 2 and 3: perplexity left to right and in random order, for masked and causal models alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyorder.errors import AnyorderError, choose
from anyorder.scoring.bound import bound
from anyorder.scoring.chain import chain, left_to_right, random_ranks
from anyorder.scoring.seeds import generator_for
from anyorder.stats import Record, perplexity
from anyorder.studies.causal import causal_terms, is_causal, load_causal
from anyorder.studies.permutation import is_permutation, permutation_terms
from anyorder.tasks.options import LoadOptions
from anyorder.training.data import documents, evenly, to_blocks
from anyorder.training.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PADDINGS = ("masked", "predicted")
_ROWS = 16  # contexts scored between two reports of progress
Progress = Callable[[str, int, int], None]
# Order, method, log q of free tokens, rows per context (0: one per predicted token).
Job = tuple[str, str, Callable[[Tensor, Tensor], Tensor], int]


@dataclass(frozen=True)
class Perplexity(Record):
    """One cell of a table.

    Attributes:
        model: its name in the table.
        order: ``sequential`` or ``random``.
        method: ``chain`` (each context along one order, as in the paper), ``bound`` (the mean over all orders,
            estimated), ``ordered`` (a masked LM trained for it, read in order: one order and one pass per context),
            ``causal``, or ``permutation`` (XLNet: the same).
        padding: ``masked`` ([PAD] is not attended to) or ``predicted`` ([PAD] is a word like any other).
        counted: ``words``, or ``words and padding``: the tokens whose log-probabilities are averaged.
        perplexity: exp of the mean negative log-probability per token, with its 95 % interval ``low`` to ``high``.
        texts: contexts.
        tokens: counted tokens.
        passes: rows sent through the model.
        seconds: for all of it.
    """

    model: str
    order: str
    method: str
    padding: str
    counted: str
    perplexity: float
    low: float
    high: float
    texts: int
    tokens: int
    passes: int
    seconds: float


@dataclass(frozen=True)
class Contexts:
    """Rows to score: [B, N] tokens, which of them are predicted, and which of those are words."""

    tokens: Tensor
    free: Tensor
    words: Tensor
    pad_id: int | None  # None: padding is attended to


def contexts(
    file: Path, tokenizer: PreTrainedTokenizerBase, *, unit: str, length: int, padding: str, limit: int | None = None
) -> Contexts:
    """The test set in rows of ``length`` tokens, made exactly as training makes them.

    With ``unit`` document only full rows are kept, so that every context is as long as the paper's; with ``line`` every
    line is a row of its own. ``limit`` keeps that many, evenly spread over the file.
    """
    choose(padding, PADDINGS, "padding")
    shortest = 2 if unit == "line" else length - 1
    blocks = list(to_blocks(list(documents(file, unit)), tokenizer, length, shortest))
    if not blocks:
        raise AnyorderError(f"{file} gives no context of {length} tokens: take a longer text or a smaller --length")
    blocks = [blocks[i] for i in evenly(0, len(blocks), limit or len(blocks))]
    pad = cast(int, tokenizer.pad_token_id)
    tokens = pad_sequence([torch.tensor(block) for block in blocks], True, pad)
    if padding == "predicted":
        tokens = torch.nn.functional.pad(tokens, (0, length - tokens.shape[1]), value=pad)
    special = torch.tensor(sorted(set(tokenizer.all_special_ids)))
    words = ~torch.isin(tokens, special)
    free = words | (tokens == pad) if padding == "predicted" else words
    return Contexts(tokens, free, words, None if padding == "predicted" else pad)


def after_the_first(rows: Contexts) -> Contexts:
    """What a causal model predicts of ``rows``: nothing stands before a first word that no special token opens."""
    later = torch.arange(rows.tokens.shape[1]) > 0
    return replace(rows, free=rows.free & later, words=rows.words & later)


def evaluate(
    name: str,
    path: Path,
    test: Path,
    *,
    unit: str,
    length: int,
    padding: str,
    random: Sequence[str] = ("chain", "bound"),
    samples: int = 16,
    limit: int | None = None,
    seed: int = 0,
    load: LoadOptions = LoadOptions(),
    progress: Progress = lambda what, done, total: None,
) -> list[Perplexity]:
    """All perplexities of one model: sequential, and for an any-order model random: a masked one by each method of
    ``random``, and in order if it was trained to be read so; XLNet along one order per context.
    """

    def generators(t: Tensor) -> list[torch.Generator]:
        return [generator_for(seed, row) for row in t.tolist()]

    def along(method: str, terms: Callable[[Tensor, Tensor, Tensor], Tensor]) -> list[Job]:
        """Both orders of a model that scores a context along one of them in one pass."""
        return [
            ("sequential", method, lambda t, f: terms(t, f, left_to_right(f)), 1),
            ("random", method, lambda t, f: terms(t, f, random_ranks(f, generators(t))), 1),
        ]

    jobs: list[Job]
    read = partial(contexts, test, unit=unit, length=length, padding=padding, limit=limit)
    permuted = is_permutation(path, load.trust_remote_code)
    if permuted or is_causal(path, load.trust_remote_code):
        rows = read(load_tokenizer(path, load.trust_remote_code))
        rows = rows if permuted else after_the_first(rows)
        model, pad = load_causal(path, load), rows.pad_id
        jobs = [("sequential", "causal", lambda t, f: causal_terms(model, t, f, pad), 1)]
        if permuted:
            jobs = along("permutation", lambda t, f, rank: permutation_terms(model, t, f, rank, pad))
    else:
        import anyorder
        from anyorder.conditionals.mlm import ModelConditionals
        from anyorder.conditionals.ordered import ModelOrdered
        from anyorder.models.ordered import TRAINED

        lm = anyorder.load(str(path), **load.keywords)
        rows = read(lm.tokenizer)
        # Not the facade's conditionals: whether [PAD] is attended to is what is measured here.
        ids: dict[str, Any] = {"mask_id": lm.conditionals.mask_id, "pad_id": rows.pad_id, "max_length": lm.max_length}
        q = ModelConditionals(lm.model, **ids)
        each = {
            "chain": (lambda t, f: chain(q, t, f, random_ranks(f, generators(t))), 0),
            "bound": (lambda t, f: bound(q, t, f, generators(t), samples)[0], samples),
        }
        jobs = [("sequential", "chain", lambda t, f: chain(q, t, f, left_to_right(f)), 0)]
        jobs += [("random", method, *each[method]) for method in random]
        if getattr(lm.model.config, TRAINED, False):
            jobs += along("ordered", partial(chain, ModelOrdered(lm.model, **ids)))
    return [cell for job in jobs for cell in _cells(name, padding, rows, job, progress)]


def _cells(name: str, padding: str, rows: Contexts, job: Job, progress: Progress) -> list[Perplexity]:
    """Score every context."""
    order, method, terms, passes = job
    began = time.perf_counter()
    parts = []
    for part in torch.arange(len(rows.tokens)).split(_ROWS):
        parts.append(terms(rows.tokens[part], rows.free[part]))
        progress(f"{name} {order} {method}", int(part[-1]) + 1, len(rows.tokens))
    seconds = time.perf_counter() - began
    log_q = torch.cat(parts)  # [B, N]
    counts = {"words": rows.words}
    if padding == "predicted":
        counts["words and padding"] = rows.free
    cells = []
    for counted, mask in counts.items():
        tokens = mask.sum(-1)
        value, low, high = perplexity((log_q * mask).sum(-1).tolist(), tokens.tolist())
        rows_run = passes * len(log_q) if passes else int(rows.free.sum())
        cells.append(
            Perplexity(
                name, order, method, padding, counted, value, low, high,
                texts=len(log_q), tokens=int(tokens.sum()), passes=rows_run, seconds=seconds,
            )
        )  # fmt: skip
    return cells
