"""Joints of two positions: exact against the paper's recipe, Arnold–Gokhale against plain sums, adaptive against exact.

python benchmarks/bench_joints.py [--quick] [--json] [--only exact|memory|steps|adaptive]

``paper_joints.py`` is the recipe. Speed and memory do not depend on the weights; the rows an adaptive support needs do,
so all of it is measured on the bundled model (V = 8,192). --quick takes one sentence and turn.
"""

from __future__ import annotations

import math
import sys
import time

import paper_joints
import torch
from common import Ratio, clock, machine, matmul_peak, parser, peak_memory, peak_memory_here, ratio, show, turns
from torch.utils.flop_counter import FlopCounterMode

import anyorder
from anyorder.conditionals import ModelConditionals
from anyorder.joints import METHODS, PairTables, adaptive_joint, derive, pair_tables
from anyorder.joints.arnold_gokhale import arnold_gokhale, fit
from anyorder.joints.measures import score_pair
from anyorder.joints.passes import conditional_rows
from anyorder.metrics.pairwise import PairScore

TAIL = 1e-3
# Captions in the manner of SNLI; the two masked words are adjacent in the first half and apart in the second.
SENTENCES = [
    ("A man in a blue shirt is standing on a ladder cleaning a window .", 8, 9),
    ("Two young children are playing in the snow near a large tree .", 4, 5),
    ("The old woman sold flowers at the corner of the street .", 2, 3),
    ("A dog runs across the green field with a ball in its mouth .", 3, 6),
    ("Several people are waiting for the train in the rain .", 2, 8),
    ("A boy in a red coat jumps over a small stream .", 2, 10),
]


def ours(lm: anyorder.MaskedLM, tokens: torch.Tensor, a: int, b: int) -> tuple[PairTables, dict[str, PairScore]]:
    tables = pair_tables(lm.conditionals, tokens, a, b)
    joints = {method: derive(tables, method) for method in METHODS}
    return tables, score_pair(tables, joints, (int(tokens[a]), int(tokens[b])))


def papers(lm: anyorder.MaskedLM, tokens: torch.Tensor, a: int, b: int) -> dict[str, dict]:
    return paper_joints.evaluate(lm.model, tokens, lm.conditionals.mask_id, a, b, lm.conditionals.vocab_size)


def encoded(lm: anyorder.MaskedLM, number: int) -> tuple[torch.Tensor, int, int]:
    text, a, b = SENTENCES[number]
    return lm.tokenizer(text, return_tensors="pt")["input_ids"][0], a, b


def exact(lm: anyorder.MaskedLM, repeats: int) -> list[Ratio]:
    """Everything for one example, and the share of the machine's peak that our passes reach."""
    example = encoded(lm, 0)
    seconds: dict[str, list[float]] = {"paper": [], "ours": []}
    for _ in range(repeats):
        start = clock()
        theirs = papers(lm, *example)
        middle = clock()
        tables, mine = ours(lm, *example)
        seconds["paper"].append(middle - start)
        seconds["ours"].append(clock() - middle)
    # The same numbers, or the comparison is void. The recipe stops after 50 steps, ours when nothing changes any more:
    # what is compared is ours after 50.
    fifty = arnold_gokhale(tables.log_a_given_b, tables.log_b_given_a, tolerance=0, max_iterations=50, accelerate=False)
    mine |= score_pair(tables, {"ag": fifty}, (int(example[0][example[1]]), int(example[0][example[2]])))
    for method in METHODS:
        for name, value in mine[method].to_dict().items():
            same = math.isclose(value, theirs[method][name], rel_tol=2e-2, abs_tol=2e-3)
            assert same, (method, name, value, theirs[method][name])
    label = f"tables, 5 joints, 4 metrics ({seconds['ours'][-1]:.0f} s) over the paper's recipe"
    return [ratio(label, seconds["paper"], seconds["ours"], 2.0), share(lm)]


def share(lm: anyorder.MaskedLM) -> Ratio:
    """Floating-point operations of the passes per second, over those of a matrix product."""
    tokens, a, b = encoded(lm, 0)
    conditionals = lm.conditionals
    assert isinstance(conditionals, ModelConditionals)
    values = torch.arange(8 * (conditionals.token_budget // len(tokens)))
    # torch counts its own products only, which it takes where oneDNN is switched off.
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        for _ in conditional_rows(conditionals, tokens, b, a, values):
            pass
    flops = counter.get_total_flops()
    rates = []
    for _ in range(5):
        peak = matmul_peak(1024, 2) * 1e9
        start = time.perf_counter()
        for _ in conditional_rows(conditionals, tokens, b, a, values):
            pass
        rates.append(flops / (time.perf_counter() - start) / peak)
    rates.sort()
    return Ratio("share of the float32 matrix-product peak our passes reach", rates[2], rates[1], rates[3], 0.7)


def memory() -> Ratio:
    mine, theirs = (peak_memory(__file__, "--side", side) for side in ("ours", "paper"))
    text = f"{mine / 2**20:.0f} MB over {theirs / 2**20:.0f} MB"
    return Ratio(f"peak memory of the same ({text})", *[mine / theirs] * 3, 0.5, at_most=True)


def steps(vocab_size: int, repeats: int) -> Ratio:
    """50 plain Arnold–Gokhale steps against 50 sums over one V×V matrix."""
    generator = torch.Generator().manual_seed(0)
    c = torch.rand(vocab_size, vocab_size, generator=generator).mul_(2 / vocab_size)

    def sums() -> None:
        for _ in range(50):
            c.sum()

    ways = {"ag": lambda: fit(c, tolerance=0, max_iterations=50, accelerate=False), "sum": sums}
    seconds = turns(ways, repeats, clock=clock)
    return ratio(f"50 AG steps over 50 sums, V = {vocab_size}", seconds["ag"], seconds["sum"], 4.0, at_most=True)


def support(lm: anyorder.MaskedLM, sentences: int) -> list[Ratio]:
    """Time and P-PPL of the adaptive support against the whole vocabulary, over all sentences together."""
    times: dict[str, list[float]] = {"exact": [], "adaptive": []}
    nll: dict[str, list[float]] = {"exact": [], "adaptive": []}
    for number in range(sentences):
        tokens, a, b = encoded(lm, number)
        gold = (int(tokens[a]), int(tokens[b]))
        start = clock()
        whole = derive(pair_tables(lm.conditionals, tokens, a, b), "ag")
        middle = clock()
        few = adaptive_joint(lm.conditionals, tokens, a, b, tail=TAIL, include=gold)
        times["exact"].append(middle - start)
        times["adaptive"].append(clock() - middle)
        nll["exact"].append(-float(whole.log_prob(*gold)))
        nll["adaptive"].append(-float(few.log_prob(*gold)))
        faster = times["exact"][-1] / times["adaptive"][-1]
        print(f"{number}: {few.rows_asked} rows, {faster:.1f}x, outside {few.outside:.1e} ± {few.outside_error:.1e}, "
              f"NLL {nll['adaptive'][-1]:.3f} for {nll['exact'][-1]:.3f}", file=sys.stderr)  # fmt: skip
    each = sorted(x / y for x, y in zip(times["exact"], times["adaptive"], strict=True))
    total = sum(times["exact"]) / sum(times["adaptive"])
    off = abs(math.exp((sum(nll["adaptive"]) - sum(nll["exact"])) / (2 * sentences)) - 1)
    return [
        Ratio(
            f"adaptive support (tail {TAIL:g}) over exact, {sentences} examples together",
            total,
            each[0],
            each[-1],
            10.0,
        ),
        Ratio("P-PPL of the adaptive support, relative difference", off, off, off, 0.01, at_most=True),
    ]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--side", choices=["ours", "paper"], help="only run this once and print its peak memory")
    options.add_argument("--only", default="", help="exact, memory, steps or adaptive")
    arguments = options.parse_args()
    lm = anyorder.load()
    if arguments.side:
        (ours if arguments.side == "ours" else papers)(lm, *encoded(lm, 0))
        print(peak_memory_here())
        return
    ratios: list[Ratio] = []
    for part, measure in {
        "steps": lambda: [steps(lm.conditionals.vocab_size, 3 if arguments.quick else arguments.repeats)],
        "exact": lambda: exact(lm, 1 if arguments.quick else 3),
        "memory": lambda: [memory()],
        "adaptive": lambda: support(lm, 2 if arguments.quick else len(SENTENCES)),
    }.items():
        if arguments.only in ("", part):
            ratios += measure()
            print(ratios[-1], file=sys.stderr)
    show(ratios, machine(), arguments.json)


if __name__ == "__main__":
    main()
