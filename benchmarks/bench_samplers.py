"""Any-order generation of a batch against a plain loop over its rows, and parallel decoding against any-order.

python benchmarks/bench_samplers.py [--quick] [--json]

The plain loop is Algorithm 1 as one writes it down: for every text, for every position of a random order, a full
forward with the full head, softmax, multinomial. Weights are random: speed does not depend on them.
"""

from __future__ import annotations

import torch
from common import Ratio, bf16_speedup, machine, parser, ratio, show, turns

from anyorder.conditionals import ModelConditionals
from anyorder.models import build
from anyorder.samplers import any_order, parallel, run
from anyorder.types import Sampler

MASK, PAD, VOCAB = 4, 0, 8192
ROWS, LENGTH, STEPS = 16, 128, 16
FIRST = 100  # each text begins with a token of its own, so that no two rows are ever the same
SIZES = {"vocab_size": VOCAB, "hidden_size": 256, "layers": 8, "heads": 4, "intermediate": 512, "max_length": LENGTH}


def conditionals_of(dtype: torch.dtype) -> ModelConditionals:
    model = build("modernbert", pad_id=PAD, **SIZES).eval().to(dtype)
    return ModelConditionals(model, mask_id=MASK, pad_id=PAD, max_length=LENGTH)


@torch.inference_mode()
def plain_loop(model: torch.nn.Module, positions: int) -> None:
    """Fill the first ``positions`` of a random order, text by text."""
    generator = torch.Generator().manual_seed(0)
    for row in range(ROWS):
        tokens = torch.full((1, LENGTH), MASK)
        tokens[0, 0] = FIRST + row
        for position in (1 + torch.randperm(LENGTH - 1, generator=generator))[:positions].tolist():
            logits = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
            probabilities = torch.softmax(logits[0, position].float(), -1)
            tokens[0, position] = torch.multinomial(probabilities, 1, generator=generator)[0]


def sample(sampler: Sampler, steps: int | None = None) -> None:
    tokens = torch.full((ROWS, LENGTH), MASK)
    tokens[:, 0] = FIRST + torch.arange(ROWS)
    free = tokens == MASK
    run(sampler, tokens, free, generator=torch.Generator().manual_seed(0), steps=steps)


def measure(dtype: torch.dtype, label: str, target: float, repeats: int, positions: int) -> list[Ratio]:
    c = conditionals_of(dtype)
    seconds = turns(
        {
            "plain": lambda: plain_loop(c.model, positions),
            "any-order": lambda: sample(any_order(c), positions),
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
