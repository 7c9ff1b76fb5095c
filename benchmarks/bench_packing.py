"""Short texts in training: padded as they come, sorted by length, or packed into full rows with their attention apart.

python benchmarks/bench_packing.py [--quick] [--json] [--data FILE --unit line]

Each way reads the same texts forwards and backwards, with the same masks, in batches of at most 16 rows of 128 tokens
(sorted texts: of at most as many tokens). Without --data a text is a full row, as the pieces of a long document are, or
one of 8 to 128 tokens, half of them each. Weights are random: speed does not depend on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import clock, machine, parser, ratio, show, turns

import anyorder
from anyorder.masking import Masker, UniformCount, collate
from anyorder.models.build import build
from anyorder.training.data import documents, to_blocks
from anyorder.training.objective import FIELDS, TokenLosses
from anyorder.training.packing import pack, pack_batch, texts_of

LENGTH, ROWS, MASK, PAD, CLS = 128, 16, 4, 0, 2
SIZE: dict[str, Any] = {"vocab_size": 8192, "hidden_size": 384, "layers": 6, "heads": 12, "intermediate": 1536}
MASKER = Masker(UniformCount(), MASK, SIZE["vocab_size"], frozenset(range(5)))
Batch = dict[str, Any]


def random_texts(count: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    lengths = np.where(rng.random(count) < 0.5, LENGTH, rng.integers(8, LENGTH + 1, count))
    return [[CLS, *rng.integers(5, SIZE["vocab_size"], n - 1).tolist()] for n in lengths]


def texts_of_file(path: Path, unit: str, count: int) -> list[list[int]]:
    """The blocks of evenly spread documents, before packing."""
    every = list(documents(path, unit))
    chosen = [every[int(i)] for i in np.linspace(0, len(every) - 1, count)]
    tokenizer = anyorder.load().tokenizer
    assert tokenizer.cls_token_id == CLS
    return list(to_blocks(chosen, tokenizer, LENGTH, 4))[:count]


def padded(texts: list[list[int]]) -> Batch:
    batch = collate([np.array(t) for t in texts], list(range(len(texts))), MASKER, PAD)
    return {**batch, "attention_mask": (batch["tokens"] != PAD).long()}


def as_they_come(texts: list[list[int]]) -> list[Batch]:
    return [padded(texts[i : i + ROWS]) for i in range(0, len(texts), ROWS)]


def by_length(texts: list[list[int]]) -> list[Batch]:
    batches: list[list[list[int]]] = [[]]
    for text in sorted(texts, key=len):
        if (len(batches[-1]) + 1) * len(text) > ROWS * LENGTH:
            batches.append([])
        batches[-1].append(text)
    return [padded(batch) for batch in batches]


def packed(texts: list[list[int]]) -> list[Batch]:
    blocks = [np.array(block) for block in pack(texts, LENGTH)]
    out = []
    for i in range(0, len(blocks), ROWS):
        parts = [texts_of(block, CLS) for block in blocks[i : i + ROWS]]
        rows = [row for row, part in enumerate(parts) for _ in part]
        flat = [text for part in parts for text in part]
        batch = collate(flat, list(range(len(flat))), MASKER, PAD)
        out.append(pack_batch(batch, [len(t) for t in flat], rows, PAD))
    return out


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--data", type=Path, help="a text file as for training, instead of random texts")
    made.add_argument("--unit", default="document", help="document or line")
    options = made.parse_args()
    count, repeats = (48, 2) if options.quick else (256, options.repeats)
    texts = texts_of_file(options.data, options.unit, count) if options.data else random_texts(count)
    losses = TokenLosses(build("bert", pad_id=PAD, max_length=LENGTH, **SIZE))
    ways = {way.__name__: way(texts) for way in (as_they_come, by_length, packed)}

    def read(batches: list[Batch]) -> None:
        for batch in batches:
            losses(**{name: batch[name] for name in FIELDS if name in batch}).sum().backward()
        losses.zero_grad(set_to_none=True)

    def reader(batches: list[Batch]) -> Any:
        return lambda: read(batches)

    seconds = turns({name: reader(batches) for name, batches in ways.items()}, repeats, clock=clock)
    tokens = sum(map(len, texts))
    filled = {name: round(tokens / sum(b["tokens"].numel() for b in batches), 3) for name, batches in ways.items()}
    rows = [
        ratio("sorted by length, against as they come", seconds["as_they_come"], seconds["by_length"]),
        ratio("packed, against as they come", seconds["as_they_come"], seconds["packed"]),
        ratio("packed, against sorted by length", seconds["by_length"], seconds["packed"]),
    ]
    show(
        rows,
        machine() | {"texts": len(texts), "tokens": tokens, "share of places that hold a token": filled},
        options.json,
    )


if __name__ == "__main__":
    main()
