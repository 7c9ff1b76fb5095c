"""Writing and scoring with a model read in order: against full passes, and against a GPT-2 with its cache.

python benchmarks/bench_ordered.py [--quick] [--json] [--kind modernbert] [--plot FILE]

The plain loop is Algorithm 1 as one writes it down (``bench_samplers.py``): for every text, for every position of a
random order, a full forward and multinomial. GPT-2 has the same width, depth, heads, vocabulary and number of weights
and writes as many tokens from left to right with transformers' own cache (``anyorder.studies.causal``). Weights are
random: speed does not depend on them. A step of full passes costs the same however much is filled, so a part of an
order stands for the whole.
How many guesses are kept does depend on the weights: speculative decoding is measured with the bundled model, or with
``--model``, the folder of another that was trained to be read in order.
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import Ratio, clock, machine, parser, ratio, show, turns

import anyorder
from anyorder.conditionals import ModelConditionals, ModelOrdered
from anyorder.models.build import build
from anyorder.samplers import Seeds, any_order, run, speculative
from anyorder.scoring import chain, random_ranks
from anyorder.studies.causal import causal_sample

# The bundled model's shape, and that of a small BERT (all-MiniLM-L6's).
BUNDLED: dict[str, Any] = {"vocab_size": 8192, "hidden_size": 256, "layers": 8, "heads": 4, "intermediate": 640}
SMALL: dict[str, Any] = {"vocab_size": 8192, "hidden_size": 384, "layers": 6, "heads": 12, "intermediate": 1536}
SIZES = {"modernbert": BUNDLED, "bert": SMALL, "relative": SMALL}
MASK, PAD, FIRST = 4, 0, 100  # each text begins with a token of its own, so that no two rows are ever the same
LENGTHS = (64, 128, 256, 512)
GUESSES = (4, 8, 16)


class Writers:
    """One model, read in every way, and a GPT-2 of its size; texts of ``length`` tokens, the first of them given."""

    def __init__(self, kind: str, length: int, positions: int, model: Any = None) -> None:
        self.length, self.positions = length, min(positions, length - 1)
        size = SIZES[kind]
        self.model = model or build(kind, pad_id=PAD, max_length=max(LENGTHS), **size).eval()
        # A gated feed-forward has three matrices where GPT-2 has two.
        width = size["intermediate"] * (3 if kind == "modernbert" else 2) // 2
        self.gpt = build("gpt2", pad_id=PAD, max_length=max(LENGTHS), **size | {"intermediate": width}).eval()
        sizes = {"mask_id": MASK, "pad_id": PAD, "max_length": max(LENGTHS)}
        self.full = ModelConditionals(self.model, **sizes)
        self.ordered = ModelOrdered(self.model, **sizes, untrained=True)

    @torch.inference_mode()
    def plain_loop(self, rows: int) -> None:
        """Fill the first positions of a random order, text by text."""
        generator = torch.Generator().manual_seed(0)
        for row in range(rows):
            tokens = torch.full((1, self.length), MASK)
            tokens[0, 0] = FIRST + row
            order = 1 + torch.randperm(self.length - 1, generator=generator)
            for position in order[: self.positions].tolist():
                logits = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
                probabilities = torch.softmax(logits[0, position], -1)
                tokens[0, position] = torch.multinomial(probabilities, 1, generator=generator)[0]

    def write(self, model: Any, rows: int, steps: int | None = None) -> None:
        """Any-order generation, to the end or for some steps."""
        tokens = (FIRST + torch.arange(rows))[:, None].repeat(1, self.length)
        free = torch.arange(self.length).expand(rows, -1) > 0
        run(any_order(model), tokens, free, generator=Seeds(0, range(rows)), steps=steps)

    def guess(self, guesses: int, seed: int = 0) -> int:
        """One text by guessing ahead; how many passes it took."""
        tokens = torch.full((1, self.length), FIRST)
        free = torch.arange(self.length)[None] > 0
        return run(speculative(self.ordered, guesses=guesses), tokens, free, generator=Seeds(seed, [0])).rows

    def write_left_to_right(self, rows: int) -> None:
        """GPT-2 with its cache, to the end."""
        start = (FIRST + torch.arange(rows))[:, None]
        causal_sample(self.gpt, start, self.length - 1, torch.Generator().manual_seed(0))

    def score(self, model: Any, rows: int) -> None:
        """The exact chain along a random order."""
        tokens = torch.randint(FIRST, 8192, (rows, self.length), generator=torch.Generator().manual_seed(1))
        free = torch.arange(self.length).expand(rows, -1) > 0
        chain(model, tokens, free, random_ranks(free, [torch.Generator().manual_seed(i) for i in range(rows)]))

    def whole(self, seconds: list[float]) -> list[float]:
        """What all positions would have taken."""
        return [s * (self.length - 1) / self.positions for s in seconds]


def measure(kind: str, repeats: int, positions: int, hundred: bool) -> list[Ratio]:
    w = Writers(kind, 128, positions)
    rows: list[Ratio] = []
    for texts, target in ((16, 30.0), (1, 6.0)):
        seconds = turns(
            {
                "plain": partial(w.plain_loop, texts),
                "full": partial(w.write, w.full, texts, w.positions),
                "ordered": partial(w.write, w.ordered, texts),
                "gpt": partial(w.write_left_to_right, texts),
            },
            repeats,
            clock=clock,
        )
        plain, full = w.whole(seconds["plain"]), w.whole(seconds["full"])
        name = f"{texts} text{'s' * (texts > 1)} of 128 tokens, ordered"
        rows += [
            ratio(f"{name}, against a plain loop of full passes", plain, seconds["ordered"], target),
            ratio(f"{name}, against any-order in full", full, seconds["ordered"]),
            ratio(f"{name}, its time over GPT-2's", seconds["ordered"], seconds["gpt"], 1.3, at_most=True),
        ]
    if hundred:
        many = {"ordered": partial(w.write, w.ordered, 100), "gpt": partial(w.write_left_to_right, 100)}
        seconds = turns(many, 3, clock=clock)
        rows.append(ratio("100 texts of 128 tokens, its time over GPT-2's", seconds["ordered"], seconds["gpt"]))
    for texts in (1, 8):
        scores = {"full": partial(w.score, w.full, texts), "ordered": partial(w.score, w.ordered, texts)}
        seconds = turns(scores, repeats, clock=clock)
        name = f"exact chain of {texts} text{'s' * (texts > 1)} of 128 tokens, ordered against full"
        rows.append(ratio(name, seconds["full"], seconds["ordered"], 15.0))
    return rows


def guessing(model: str | None, repeats: int, positions: int) -> tuple[list[Ratio], dict[str, float]]:
    """One text by a trained model, tokens guessed ahead; and how many tokens a pass gave."""
    w = Writers("modernbert", 128, positions, model=anyorder.load(model).model)
    work = {"plain": partial(w.plain_loop, 1), "ordered": partial(w.write, w.ordered, 1)}
    work |= {str(guesses): partial(w.guess, guesses) for guesses in GUESSES}
    seconds = turns(work, repeats, clock=clock)
    plain = w.whole(seconds["plain"])
    rows = [ratio("1 text of 128 tokens by --model, ordered, against a plain loop", plain, seconds["ordered"])]
    for guesses in GUESSES:
        name, target = f"… {guesses} tokens guessed ahead", 6.0 if guesses == 8 else None
        rows.append(ratio(f"{name}, against a plain loop", plain, seconds[str(guesses)], target))
        rows.append(ratio(f"{name}, against ordered", seconds["ordered"], seconds[str(guesses)]))
    texts = range(8)
    per_pass = {str(k): len(texts) * (w.length - 1) / sum(w.guess(k, seed) for seed in texts) for k in GUESSES}
    return rows, per_pass


def by_length(kind: str, repeats: int, positions: int) -> dict[str, list[float]]:
    """Median seconds for 16 texts of each length."""
    found: dict[str, list[float]] = {"any-order in full": [], "ordered": [], "GPT-2, cache": [], "chain, ordered": []}
    for length in LENGTHS:
        w = Writers(kind, length, positions)
        work = {
            "any-order in full": partial(w.write, w.full, 16, w.positions),
            "ordered": partial(w.write, w.ordered, 16),
            "GPT-2, cache": partial(w.write_left_to_right, 16),
            "chain, ordered": partial(w.score, w.ordered, 16),
        }
        seconds = turns(work, repeats, clock=clock)
        seconds["any-order in full"] = w.whole(seconds["any-order in full"])
        for name, values in seconds.items():
            found[name].append(statistics.median(values))
    return found


def plot(found: dict[str, list[float]], path: Path) -> None:
    from anyorder.show.figure import FONT, new_figure, plain_log, save_figure

    figure, (ax,) = new_figure(width=5.2, height=3.6)
    for name, values in found.items():
        ax.loglog(LENGTHS, values, marker="o", ms=4, lw=1.2, label=name, base=2)
    plain_log(ax, "y")
    ax.set(xlabel="tokens of a text", ylabel="seconds, 16 texts", xticks=LENGTHS, xticklabels=LENGTHS)
    ax.legend(fontsize=FONT, frameon=False)
    save_figure(figure, path)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--kind", default="modernbert", choices=SIZES, help="modernbert is the bundled model's shape")
    made.add_argument("--model", help="a folder: guessing ahead with this model; the bundled one if absent")
    made.add_argument("--plot", type=Path, help="draw the cost against the length here")
    options = made.parse_args()
    repeats, positions = (2, 4) if options.quick else (options.repeats, 16)
    settings = machine() | {
        "model": f"{options.kind}, {SIZES[options.kind]}",
        "timed": f"{positions} positions of full passes",
    }
    rows = measure(options.kind, repeats, positions, not options.quick)
    guessed, settings["tokens_per_pass"] = guessing(options.model, repeats, positions)
    rows += guessed
    if not options.quick:
        found = by_length(options.kind, 3, 4)
        settings["seconds_by_length"] = {"length": LENGTHS, **found}
        if options.plot:
            plot(found, options.plot)
    show(rows, settings, options.json)


if __name__ == "__main__":
    main()
