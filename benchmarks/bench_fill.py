"""A list of texts in one call of ``lm.fill``, against transformers' fill-mask pipeline and against a loop of calls.

python benchmarks/bench_fill.py [--quick] [--json] [--data snli/sentences.test.txt.xz] [--texts 1000] [--blanks 2]

The pipeline gets the texts at each of several batch sizes once; the quickest is then timed by turns with ours. Both
give five completions per text. Without ``--data`` the sentences are random words of the model, as long as SNLI's.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import torch
from common import Ratio, clock, machine, parser, ratio, show, turns

import anyorder
from anyorder.files.reading import Source
from anyorder.tasks.lm import MaskedLM
from anyorder.text.vocabulary import BEGINS, vocabulary

SIZES = (1, 8, 32, 128)


def sentences(lm: MaskedLM, data: str | None, count: int) -> list[list[str]]:
    """Words of the first ``count`` lines of a file that have more than three; or random words, as long as captions."""
    if data:
        lines = (text.split() for text in Source(data))
        return [words for _, words in zip(range(count), (w for w in lines if len(w) > 3), strict=False)]
    words = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    whole = [words.pieces[i] for i in (words.fits[BEGINS] & ~words.special).nonzero().flatten().tolist()]
    known = [w for w in map(words.surface, range(len(words.pieces))) if w in whole and w.isalpha()]
    draw, g = random.Random(0), torch.Generator().manual_seed(0)
    lengths = (2.3 + 0.45 * torch.randn(count, generator=g)).exp().round().long().clamp(4, 40).tolist()
    return [draw.choices(known, k=n) for n in lengths]


def blanked(texts: list[list[str]], blanks: int) -> list[str]:
    """Every text with some of its words taken out."""
    draw, out = random.Random(blanks), []
    for words in texts:
        places = set(draw.sample(range(len(words)), blanks))
        out.append(" ".join("___" if i in places else word for i, word in enumerate(words)))
    return out


def against_pipeline(lm: MaskedLM, texts: list[str], repeats: int) -> list[Ratio]:
    from transformers import FillMaskPipeline

    pipeline = FillMaskPipeline(model=lm.model, tokenizer=lm.tokenizer)
    masked = [text.replace("___", str(lm.tokenizer.mask_token)) for text in texts]
    some = masked[: max(64, len(masked) // 8)]
    tried = turns({str(n): lambda n=n: pipeline(some, top_k=5, batch_size=n) for n in SIZES}, 1, clock=clock)
    best = min(SIZES, key=lambda n: tried[str(n)][0])
    answers: dict[str, Any] = {}
    seconds = turns(
        {
            "ours": lambda: answers.update(ours=lm.fill(texts, **LIKE_THEIRS)),
            "pipeline": lambda: answers.update(theirs=pipeline(masked, top_k=5, batch_size=best)),
        },
        repeats,
        warmup=0,
        clock=clock,
    )
    # By token, for what reads the same, such as G and ##G where a text begins, is two of theirs and one of ours.
    places = [ids.index(lm.tokenizer.mask_token_id) for ids in lm.tokenizer(masked)["input_ids"]]
    theirs = [{one["token"]: one["score"] for one in several} for several in answers["theirs"]]
    each = zip(answers["ours"], theirs, places, strict=True)
    worst = max(abs(c.prob - known[t]) for ours, known, at in each for c in ours if (t := c.tokens[at]) in known)
    name = f"{len(texts)} texts with one blank"
    return [
        ratio(f"{name}: fill-mask (best batch, {best}) over one call", seconds["pipeline"], seconds["ours"], 2),
        Ratio(f"{name}: largest difference from fill-mask's probabilities", *[worst] * 3, 1e-4, at_most=True),
    ]  # fmt: skip


# What fill-mask does: every token may stand in the blank, and unknown words are let stand.
LIKE_THEIRS: dict[str, Any] = {"whole_words": False, "special_tokens": True, "allow_unknown": True}


def against_loop(lm: MaskedLM, texts: list[str], repeats: int) -> list[Ratio]:
    answers: dict[str, Any] = {}
    seconds = turns(
        {
            "list": lambda: answers.update(list=lm.fill(texts, allow_unknown=True)),
            "loop": lambda: answers.update(loop=[lm.fill(text, allow_unknown=True) for text in texts]),
        },
        repeats,
        warmup=0,
        clock=clock,
    )
    same = sum([c.text for c in a] == [c.text for c in b] for a, b in zip(*answers.values(), strict=True))
    name = f"{len(texts)} texts with two blanks"
    return [
        ratio(f"{name}: a loop of calls over one call", seconds["loop"], seconds["list"], 3),
        Ratio(f"{name}: share of texts with the same five completions", *[same / len(texts)] * 3, 0.99),
    ]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", help="a text per line, such as SNLI's sentences")
    options.add_argument("--texts", type=int, default=1000)
    options.add_argument("--model", help="a folder or a name; the bundled model if absent")
    options.add_argument("--blanks", type=int, choices=(1, 2), help="only texts with so many blanks")
    arguments = options.parse_args()
    count = 64 if arguments.quick else arguments.texts
    repeats = 1 if arguments.quick else min(3, arguments.repeats)
    lm = anyorder.load(arguments.model)
    texts = sentences(lm, arguments.data, count)
    ratios: list[Ratio] = []
    for part, blanks in ((against_pipeline, 1), (against_loop, 2)):
        if arguments.blanks in (None, blanks):
            ratios += part(lm, blanked(texts, blanks), repeats)
            print(*ratios[-2:], sep="\n", file=sys.stderr)
    settings = machine() | {"texts": len(texts), "data": arguments.data or "random words", "model": lm.name}
    show(ratios, settings, arguments.json)


if __name__ == "__main__":
    main()
