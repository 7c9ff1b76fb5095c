"""Scoring against minicons, the bound against the chain, and how much of the machine's matrix product both reach.

python benchmarks/bench_scoring.py [--quick] [--json] [--data snli/sentences.test.txt.xz] [--sentences 500]
                                   [--only bound|minicons|memory]

minicons (PyPI, the extra ``bench``) is the scorer people use for masked LMs. It gets the sentences in batches of 32 in
their order, as its manual has it, and once one at a time, where it pads nothing. Without ``--data`` the sentences are
random words, as long as SNLI's captions. Weights are random: speed does not depend on them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import Ratio, clock, machine, parser, peak_memory, peak_memory_here, ratio, show, turns

import anyorder
from anyorder.files.reading import Source
from anyorder.models.build import build
from anyorder.models.products import linear
from anyorder.tasks.lm import MaskedLM
from anyorder.tasks.options import ScoreOptions
from anyorder.tasks.pieces import pieces
from anyorder.tasks.score import Method, score

BASE: dict[str, Any] = {
    "vocab_size": 28996, "hidden_size": 768, "layers": 12, "heads": 12, "intermediate": 3072, "max_length": 512,
}  # fmt: skip
MINI: dict[str, Any] = {
    "vocab_size": 8192, "hidden_size": 256, "layers": 8, "heads": 4, "intermediate": 1024, "max_length": 128,
}  # fmt: skip
BATCH = 32
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def sentences(data: str | None, count: int) -> list[str]:
    """The first ``count`` lines of a file, or random words, log-normal in length like SNLI's captions (mean 11)."""
    if data:
        texts = [text for _, text in zip(range(count), Source(data), strict=False)]
        return [" ".join("".join(c if c.isalnum() else " " for c in text.lower()).split()) for text in texts]
    g = torch.Generator().manual_seed(0)
    lengths = (2.3 + 0.45 * torch.randn(count, generator=g)).exp().round().long().clamp(3, 40)
    words = [f"w{i}" for i in range(2000)]
    return [" ".join(words[i] for i in torch.randint(2000, (n,), generator=g)) for n in lengths.tolist()]


def checkpoint(folder: Path, texts: list[str], sizes: dict[str, Any]) -> Path:
    """A random BERT whose vocabulary holds every word of ``texts``."""
    from transformers import BertTokenizer

    words = list(dict.fromkeys([*SPECIAL, *(word for text in texts for word in text.split())]))
    if len(words) > sizes["vocab_size"]:
        raise SystemExit(f"{len(words)} different words do not fit the vocabulary: take fewer sentences")
    words += [f"[unused{i}]" for i in range(sizes["vocab_size"] - len(words))]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        build("bert", pad_id=0, cls_id=2, sep_id=3, **sizes).save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(words)}, do_lower_case=True)
    tokenizer.model_max_length = sizes["max_length"]
    tokenizer.save_pretrained(folder)
    return folder


def ours(lm: MaskedLM, texts: list[str], method: ScoreOptions) -> list[float]:
    return [result.log_prob for result in score(lm, texts, method)]


def minicons(scorer: Any, texts: list[str], batch: int) -> list[float]:
    values: list[float] = []
    for start in range(0, len(texts), batch):
        values += scorer.sequence_score(texts[start : start + batch], reduction=lambda x: x.sum(0).item())
    return values


def scorer_of(folder: Path) -> Any:
    from minicons.scorer import MaskedLMScorer

    scorer = MaskedLMScorer(str(folder), "cpu")
    # minicons 0.3 calls a method that transformers 5 took away; calling the tokenizer is what it did.
    scorer.tokenizer.batch_encode_plus = scorer.tokenizer.__call__
    return scorer


def flops(lm: MaskedLM, texts: list[str], method: Method, sizes: dict[str, Any]) -> float:
    """Multiplications and additions of the matrix products that ``method`` cannot do without.

    Per token and layer 4d² for attention's projections, 2dm for the feed-forward, 2nd for attention itself; the last
    layer's query, output and feed-forward, and the head, only where something is asked.
    """
    d, m, layers, v = (sizes[k] for k in ("hidden_size", "intermediate", "layers", "vocab_size"))
    total = 0.0
    for piece in pieces(lm.tokenizer, texts, lm.max_length):
        n, rows = len(piece.tokens), method.rows(piece)
        asked = rows if method.name != "bound" else rows * piece.scored / 2
        total += rows * n * (layers - 1) * (4 * d * d + 2 * d * m + 2 * n * d)
        total += rows * n * 2 * d * d + asked * (2 * d * d + 2 * d * m + 2 * n * d) + asked * (d * d + d * v)
    return 2 * total


def compare(folder: Path, texts: list[str], repeats: int) -> list[Ratio]:
    lm, scorer, pll = anyorder.load(str(folder)), scorer_of(folder), ScoreOptions("pll")
    values: dict[str, list[float]] = {}  # what the timed runs answered
    a, b = torch.randn(1536, 1536), torch.randn(1536, 1536)
    seconds = turns(
        {
            "matmul": lambda: linear(a, b),
            "ours": lambda: values.update(ours=ours(lm, texts, pll)),
            "minicons": lambda: values.update(minicons=minicons(scorer, texts, BATCH)),
            "minicons, one at a time": lambda: minicons(scorer, texts, 1),
        },
        repeats,
        warmup=0,
        clock=clock,
    )
    worst = max(abs(a - b) for a, b in zip(values["ours"], values["minicons"], strict=True))
    work = flops(lm, texts, Method.of(pll), BASE)
    reached = [work / s / (2 * 1536**3 / m) for s, m in zip(seconds["ours"], seconds["matmul"], strict=True)]
    fit = sorted(reached)[len(reached) // 2]
    n = f"pll of {len(texts)} sentences, BERT-base"
    return [
        ratio(f"{n}: minicons (batches of {BATCH}) over ours", seconds["minicons"], seconds["ours"], 2.0),
        ratio(f"{n}: minicons (one at a time) over ours", seconds["minicons, one at a time"], seconds["ours"]),
        Ratio(
            f"{n}: largest difference from minicons, nats",
            *[worst] * 3,
            1e-4,
            at_most=True,
        ),
        Ratio(f"{n}: share of the matrix product's peak", fit, min(reached), max(reached), 0.6),
    ]


def bound_against_chain(folder: Path, repeats: int) -> Ratio:
    g = torch.Generator().manual_seed(0)
    texts = [" ".join(f"w{i}" for i in torch.randint(2000, (126,), generator=g).tolist()) for _ in range(2)]
    lm = anyorder.load(str(checkpoint(folder, [" ".join(f"w{i}" for i in range(2000))], MINI)))
    seconds = turns(
        {
            "chain": lambda: ours(lm, texts, ScoreOptions("chain", order="random")),
            "bound": lambda: ours(lm, texts, ScoreOptions("bound", samples=16)),
        },
        repeats,
        clock=clock,
    )
    return ratio(
        "128 tokens, 8 layers of 256: chain over the bound with 16 samples", seconds["chain"], seconds["bound"], 6
    )


def memory(folder: Path, given: list[str]) -> Ratio:
    peak = {who: peak_memory(__file__, "--peak", who, str(folder), *given) for who in ("ours", "minicons")}
    share = peak["ours"] / peak["minicons"]
    megabytes = " over ".join(f"{peak[who] / 2**20:.0f} MB" for who in ("ours", "minicons"))
    return Ratio(f"peak memory, ours over minicons ({megabytes})", *[share] * 3, 0.5, at_most=True)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", help="one text per line, such as SNLI's sentences")
    options.add_argument("--sentences", type=int, default=500)
    options.add_argument("--only", choices=["bound", "minicons", "memory"], help="only this part")
    options.add_argument("--peak", nargs=2, metavar=("WHO", "FOLDER"), help="only score and print the peak memory")
    arguments = options.parse_args()
    count = 16 if arguments.quick else arguments.sentences
    texts = sentences(arguments.data, count)
    if arguments.peak:
        who, folder = arguments.peak
        if who == "ours":
            ours(anyorder.load(folder), texts, ScoreOptions("pll"))
        else:
            minicons(scorer_of(Path(folder)), texts, BATCH)
        print(peak_memory_here())
        return
    repeats = min(3, arguments.repeats) if arguments.quick else arguments.repeats
    given = ["--sentences", str(count), *(["--data", arguments.data] if arguments.data else [])]
    ratios: list[Ratio] = []
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary) / "base"
        if arguments.only != "bound":
            checkpoint(base, texts, BASE)
        parts: dict[str, Callable[[], list[Ratio]]] = {
            "bound": lambda: [bound_against_chain(Path(temporary) / "mini", repeats)],
            "minicons": lambda: compare(base, texts, min(repeats, 3)),
            "memory": lambda: [memory(base, given)],
        }
        for name in [arguments.only] if arguments.only else parts:
            ratios += parts[name]()
            print(ratios[-1], file=sys.stderr)
    show(ratios, machine() | {"sentences": count, "data": arguments.data or "random words"}, arguments.json)


if __name__ == "__main__":
    main()
