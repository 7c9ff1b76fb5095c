"""Conditionals at 2 positions of 128 against the full forward, products by oneDNN against torch's own, and memory
against the number of rows.

python benchmarks/bench_conditionals.py [--quick] [--json]

The baseline is what a user writes without us: ``model(...).logits`` in micro-batches of the same size, in inference
mode, then log_softmax at the asked positions. Weights are random: speed does not depend on them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from common import Ratio, machine, parser, peak_memory, peak_memory_here, ratio, show, turns
from torch import Tensor
from torch.nn.functional import linear

from anyorder.conditionals import ModelConditionals
from anyorder.models.build import build
from anyorder.models.products import by_onednn, faster_by_onednn

LENGTH, ASKED, MASK, PAD = 128, 2, 4, 0
MINI: dict[str, Any] = {"vocab_size": 8192, "hidden_size": 256, "layers": 8, "heads": 4, "max_length": LENGTH}
BASE: dict[str, Any] = {
    "vocab_size": 28996, "hidden_size": 768, "layers": 12, "heads": 12, "intermediate": 3072, "max_length": 512,
}  # fmt: skip
# name -> kind, sizes, rows of one measurement
MODELS: dict[str, tuple[str, dict[str, Any], int]] = {
    "mini (ModernBERT, 8 layers of 256)": ("modernbert", {**MINI, "intermediate": 512}, 32),
    "u-PMLM-A (BERT, 8 layers of 256)": ("bert", {**MINI, "intermediate": 1024}, 32),
    "u-PMLM-R (relative, 8 layers of 256)": ("relative", {**MINI, "intermediate": 1024}, 32),
    "BERT-base (12 layers of 768)": ("bert", BASE, 8),
}


def conditionals_of(name: str) -> ModelConditionals:
    kind, sizes, _ = MODELS[name]
    model = build(kind, pad_id=PAD, **sizes).eval()
    return ModelConditionals(model, mask_id=MASK, pad_id=PAD, max_length=LENGTH)


def questions(vocab_size: int, rows: int) -> tuple[Tensor, Tensor]:
    """Different rows without padding, so that neither trimming nor repetition helps us."""
    g = torch.Generator().manual_seed(0)
    tokens = torch.randint(5, vocab_size, (rows, LENGTH), generator=g)
    positions = torch.rand(rows, LENGTH, generator=g).argsort(1)[:, :ASKED]
    return tokens.scatter(1, positions, MASK), positions


def full_forward(c: ModelConditionals, tokens: Tensor, positions: Tensor) -> Tensor:
    answers = []
    with torch.inference_mode():
        for t, p in zip(tokens.split(c.token_budget // LENGTH), positions.split(c.token_budget // LENGTH), strict=True):
            logits = c.model(input_ids=t, attention_mask=torch.ones_like(t)).logits
            answers.append(logits.gather(1, p[..., None].expand(-1, -1, logits.shape[-1])).log_softmax(-1))
    return torch.cat(answers)


def speed(name: str, repeats: int) -> Ratio:
    c = conditionals_of(name)
    tokens, positions = questions(c.vocab_size, MODELS[name][2])
    torch.testing.assert_close(c(tokens, positions), full_forward(c, tokens, positions), atol=1e-4, rtol=0)
    ways: dict[str, Callable[[], Tensor]] = {
        "full": lambda: full_forward(c, tokens, positions),
        "asked": lambda: c(tokens, positions),
    }
    seconds = turns(ways, repeats, clock=time.process_time if torch.get_num_threads() == 1 else time.perf_counter)
    return ratio(f"{name}: {ASKED} of {LENGTH} positions over the full forward", seconds["full"], seconds["asked"], 1.3)


@torch.inference_mode()
def products_of(rows: int, repeats: int) -> Ratio:
    """A product of one layer in single precision; which CPUs use it, ``models/products.py`` says."""
    x, weight = torch.randn(rows, 256), torch.randn(768, 256)

    def often(way: Callable[[Tensor, Tensor], Tensor]) -> None:
        for _ in range(50):
            way(x, weight)

    seconds = turns({"torch": lambda: often(linear), "oneDNN": lambda: often(by_onednn)}, repeats)
    used = "used here" if faster_by_onednn() else "not used here"
    return ratio(f"{rows} rows of 256 by 768 by oneDNN over torch's own ({used})", seconds["torch"], seconds["oneDNN"])


def memory(repeats: int = 3) -> Ratio:
    """Several pairs of processes: what the allocator keeps varies by some 5 % from one to the next."""
    name = next(iter(MODELS))
    few, many = ([float(peak_memory(__file__, "--rows", str(rows))) for _ in range(repeats)] for rows in (100, 1000))
    megabytes = f"{max(many) / 2**20:.0f} MB at most; the answer alone is 63 MB"
    return ratio(f"{name}: peak memory of 1,000 rows over 100 ({megabytes})", many, few, 1.2, at_most=True)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, help="only ask this many rows and print the peak memory in bytes")
    options.add_argument("--only", default="", help="only models whose name contains this")
    arguments = options.parse_args()
    if arguments.rows:
        c = conditionals_of(next(iter(MODELS)))
        c(*questions(c.vocab_size, arguments.rows))
        print(peak_memory_here())
        return
    names = [name for name in list(MODELS)[: 1 if arguments.quick else None] if arguments.only in name]
    ratios = []
    for name in names:
        ratios.append(speed(name, 3 if arguments.quick else arguments.repeats))
        print(ratios[-1], file=sys.stderr)
    ratios += [products_of(rows, 3 if arguments.quick else arguments.repeats) for rows in (16, 2048)]
    ratios.append(memory())
    show(ratios, machine(), arguments.json)


if __name__ == "__main__":
    main()
