"""The card of a bundled model: figures from the run's own log or measured here, and samples as they come."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from anyorder.studies.bars import Measured
from anyorder.studies.samples import BEGIN, END, SCATTER, blank_accuracy, filled_blanks, order_perplexity, texts
from anyorder.tasks.lm import MaskedLM
from anyorder.training.blocks import Blocks
from anyorder.training.data import evenly, opening_id
from anyorder.training.packing import texts_of

_SCORED = 64  # held-out texts behind each perplexity
_BLANKS = 4096  # held-out texts with one blank each, behind the accuracy
_SAMPLES = 20  # of each kind


def card(run: Path, lm: MaskedLM, measured: Measured | None = None, start: str | None = None) -> str:
    """The model card of ``lm``.

    Args:
        run: The folder of the training run.
        lm: The model it made.
        measured: The model beside the bars, if it was measured.
        start: What it was started from, in words; None: what the recipe says.
    """
    readings = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    tokens = next(r["tokens"] for r in reversed(readings) if "tokens" in r)
    recipe = json.loads((run / "final" / "recipe.json").read_text())
    settings = {key: value for key, value in recipe.items() if key not in ("output", "run")}  # what decides the result
    meta: dict[str, Any] = json.loads(_meta(run).read_text())
    held_out = held_out_texts(lm, run)
    some = [held_out[i] for i in evenly(0, len(held_out), _SCORED)]
    ppl = {order: order_perplexity(lm, some, order) for order in ("sequential", "random")}
    accuracy = blank_accuracy(lm, [held_out[i] for i in evenly(0, len(held_out), _BLANKS)])
    parameters = sum(p.numel() for p in lm.model.parameters())
    sums = "\n".join(f"- `{name}`, sha256 `{digest}`" for name, digest in meta["files"].items())
    shares = " or ".join(f"{share:.0%}" for share in sorted(set(meta["holdout"])))
    start = start or (f"`{recipe['init']}`" if recipe["init"] else "random weights")
    return f"""# anyorder mini

A small masked language model of English that is good in any word order: u-PMLM (Liao et al. 2020), trained on texts
with any number of their tokens masked (prior `{recipe["objective"]["prior"]}`). It was started from {start}.
It ships with `anyorder` so that everything can be tried at once; it is not a large language model and knows little.

- Architecture: {lm.model.config.model_type} ({parameters / 1e6:.1f}M parameters), loads with `AutoModelForMaskedLM`
- Tokens read in this run: {tokens:,}, in rows of {meta["length"]}
{_validation(readings)}
- Perplexity of held-out texts, each along one order: random {ppl["random"]:.0f}, left to right
  {ppl["sequential"]:.0f} ({len(some)} texts, 95 % intervals)
- One blank in a held-out text: the likeliest token is the right one in
  {accuracy:.1%}
- Seed {recipe["seed"]}

{measured.table() if measured else "The bars were not measured."}

## Data

Text files with one paragraph per line and a blank line between documents; the last {shares} of the
documents of each were held out. What each file is and where it comes from: `docs/data.md`.

{sums}

## Limits

It writes like its sources, with their prejudices and errors. It has seen rows of at most {meta["length"]} tokens. Do
not use it for facts or for decisions about people.

## Samples

{_SAMPLES} of each kind, as they come: held-out sentences evenly spread over the held-out text, blanks drawn at random;
all texts drawn at temperature 1 in random order, seed 0.

{_samples(lm, held_out)}

## Licence

The weights are released under Apache-2.0, like the code.

## The run

```json
{json.dumps(settings, indent=2)}
```
"""


def _meta(run: Path) -> Path:
    """What a run's tokenised data says of itself."""
    return next((run / "cache").glob("*/meta.json"))


def held_out_texts(lm: MaskedLM, run: Path) -> list[np.ndarray]:
    """The held-out texts of a run, each by itself also where rows were packed."""
    blocks = Blocks.load(_meta(run).parent, "valid")
    opening = opening_id(lm.tokenizer)
    if opening is None:
        return [blocks[i] for i in range(len(blocks))]
    return [text for i in range(len(blocks)) for text in texts_of(blocks[i], opening)]


def _validation(readings: list[dict[str, Any]]) -> str:
    """The run's last validation, by file where it was a mixture."""
    last = next(r for r in reversed(readings) if "validation" in r)
    lines = []
    for suffix, title in (("", ""), ("_ordered", ", read in order")):
        if "validation" + suffix in last:
            parts = {"all": last["validation" + suffix], **last.get("files" + suffix, {})}
            lines.append(
                f"- Held-out any-order loss (eq 6, uniform count){title}, nats per token, at the end of the run:"
            )
            figures = [
                f"  {name} {loss['value']:.3f} ± {loss['standard_error']:.3f} ({loss['samples']:,} texts)"
                for name, loss in parts.items()
            ]
            lines.append(",\n".join(figures))
    return "\n".join(lines)


def _samples(lm: MaskedLM, held_out: list[np.ndarray]) -> str:
    parts = []
    for number, name in ((1, "One blank"), (2, "Two blanks"), (5, "Five blanks")):
        lines = [f"### {name}, filled jointly\n", "| sentence | stood there | filled in |", "|---|---|---|"]
        for one in filled_blanks(lm, held_out, number, _SAMPLES):
            lines.append(f"| {_cell(one.text)} | {_cell(', '.join(one.truth))} | {_cell(', '.join(one.found))} |")
        parts.append("\n".join(lines))
    names = {
        "scatter": f"Words scattered over a text (Figure 1 of Liao et al.): {SCATTER}",
        "begin-end": f"Begin and end given (Figure 4): {BEGIN} … {END}",
        "paragraph": "A paragraph from nothing",
    }
    for use, name in names.items():
        listed = "\n".join(f"{i}. {_cell(text)}" for i, text in enumerate(texts(lm, use, _SAMPLES), 1))
        parts.append(f"### {name}\n\n{listed}")
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    """Text that Markdown leaves alone."""
    return re.sub(r"([\\|*_`<>\[\]#])", r"\\\1", " ".join(text.split()))
