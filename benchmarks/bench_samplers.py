"""Any-order generation of a batch against a plain loop over its rows, parallel decoding against any-order, and a
source of randomness per row (with which a seed fixes each text) against one for the whole batch.

python benchmarks/bench_samplers.py [--quick] [--json]

The plain loop is Algorithm 1 as one writes it down: for every text, for every position of a random order, a full
forward with the full head, softmax, multinomial. The model is the bundled one.
"""

from __future__ import annotations

from typing import Any

import torch
from common import Ratio, bf16_speedup, machine, parser, ratio, show, turns

import anyorder
from anyorder.conditionals import ModelConditionals
from anyorder.samplers import Seeds, any_order, parallel, run
from anyorder.types import Randomness, Sampler

ROWS, LENGTH, STEPS = 16, 128, 16
FIRST = 100  # each text begins with a token of its own, so that no two rows are ever the same


def conditionals_of(dtype: torch.dtype) -> ModelConditionals:
    lm = anyorder.load()
    mask, pad = lm.tokenizer.mask_token_id, lm.tokenizer.pad_token_id
    return ModelConditionals(lm.model.to(dtype), mask_id=mask, pad_id=pad, max_length=LENGTH)


@torch.inference_mode()
def plain_loop(model: torch.nn.Module, mask: int, positions: int) -> None:
    """Fill the first ``positions`` of a random order, text by text."""
    generator = torch.Generator().manual_seed(0)
    for row in range(ROWS):
        tokens = torch.full((1, LENGTH), mask)
        tokens[0, 0] = FIRST + row
        for position in (1 + torch.randperm(LENGTH - 1, generator=generator))[:positions].tolist():
            logits = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
            probabilities = torch.softmax(logits[0, position].float(), -1)
            tokens[0, position] = torch.multinomial(probabilities, 1, generator=generator)[0]


def sample(sampler: Sampler[Any], steps: int | None = None, generator: Randomness | None = None) -> None:
    tokens = (FIRST + torch.arange(ROWS))[:, None].repeat(1, LENGTH)
    free = torch.arange(LENGTH).expand(ROWS, -1) > 0
    run(sampler, tokens, free, generator=generator or Seeds(0, range(ROWS)), steps=steps)


def measure(dtype: torch.dtype, label: str, target: float, repeats: int, positions: int) -> list[Ratio]:
    c = conditionals_of(dtype)
    seconds = turns(
        {
            "plain": lambda: plain_loop(c.model, c.mask_id, positions),
            "any-order": lambda: sample(any_order(c), positions),
            "one generator": lambda: sample(any_order(c), positions, torch.Generator().manual_seed(0)),
            "parallel": lambda: sample(parallel(c, steps=STEPS)),
            "parallel, random": lambda: sample(parallel(c, steps=STEPS, commit="random")),
        },
        repeats,
        warmup=0,
    )
    # A step costs the same however much is filled, so part of the order stands for the whole.
    whole = [s * (LENGTH - 1) / positions for s in seconds["any-order"]]
    against = f"parallel in {STEPS} steps against any-order in {LENGTH}"
    return [
        ratio(f"any-order against a plain loop, {label}", seconds["plain"], seconds["any-order"], target),
        ratio(f"a source per row against one generator, {label}", seconds["one generator"], seconds["any-order"], 0.95),
        ratio(f"{against}, by confidence, {label}", whole, seconds["parallel"], 6.0),
        ratio(f"{against}, at random, {label}", whole, seconds["parallel, random"], 6.0),
    ]


def main() -> None:
    options = parser(__doc__).parse_args()
    repeats, positions = (3, 8) if options.quick else (options.repeats, 32)
    rows = measure(torch.float32, "float32", 2.5, repeats, positions)
    if bf16_speedup() is not None:
        rows += measure(torch.bfloat16, "bfloat16", 4.0, repeats, positions)
    texts = f"{ROWS} texts of {LENGTH} tokens, the first {positions} positions of each order timed"
    show(rows, {**machine(), "texts": texts}, options.json)


if __name__ == "__main__":
    main()
