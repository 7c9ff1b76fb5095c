"""Put a trained model into the package: half-precision weights, tokenizer, and a card that says what it is.

python -m anyorder.studies.bundle runs/mini/final
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM

import anyorder
from anyorder.errors import AnyorderError
from anyorder.models.load import BUNDLED
from anyorder.studies.samples import (
    BEGIN,
    END,
    SCATTER,
    any_order_loss,
    blank_accuracy,
    evenly,
    filled_blanks,
    order_perplexity,
    texts,
)
from anyorder.tasks.lm import MaskedLM
from anyorder.training.data import Blocks
from anyorder.training.tokenizer import load_tokenizer

LIMIT = 20 * 2**20  # bytes of weights the package may carry


def bundle(final: Path, target: Path = BUNDLED) -> None:
    """Copy the model in ``final`` to ``target`` in half precision, with its card.

    fp16 rather than bf16: the weights are far from fp16's range, and three more bits of each are kept.
    """
    model = AutoModelForMaskedLM.from_pretrained(final, dtype=torch.float16)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > LIMIT:
        raise AnyorderError(f"{final} takes {size / 2**20:.1f} MB in half precision, more than the package's 20 MB")
    shutil.rmtree(target, ignore_errors=True)
    model.save_pretrained(target)
    load_tokenizer(final).save_pretrained(target)
    (target / "model.safetensors").chmod(0o644)  # safetensors writes files only their owner can read
    (target / "README.md").write_text(card(final.parent, anyorder.load(target)), encoding="utf-8")


def card(run: Path, lm: MaskedLM, blocks: int = 64, blanks: int = 4096, count: int = 20) -> str:
    """The model card of ``lm``: figures read from the run's own files or measured here, and samples as they come.

    Args:
        run: the folder of the training run.
        lm: the model it made.
        blocks: held-out blocks behind each perplexity.
        blanks: held-out blocks with one blank each, behind the accuracy.
        count: samples of each kind.
    """
    readings = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    tokens = next(r["tokens"] for r in reversed(readings) if "tokens" in r)
    recipe = json.loads((run / "final" / "recipe.json").read_text())
    settings = {key: value for key, value in recipe.items() if key not in ("output", "run")}  # what decides the result
    meta: dict[str, Any] = json.loads(next((run / "cache").glob("*/meta.json")).read_text())
    held_out = Blocks.load(next((run / "cache").glob("*/meta.json")).parent, "valid")
    parameters = sum(p.numel() for p in lm.model.parameters())
    loss = any_order_loss(lm, evenly(held_out, len(held_out)))
    some = evenly(held_out, blocks)
    ppl = {order: order_perplexity(lm, some, order) for order in ("sequential", "random")}
    accuracy = blank_accuracy(lm, evenly(held_out, blanks))
    sums = "\n".join(f"- `{name}`, sha256 `{digest}`" for name, digest in meta["files"].items())
    return f"""# anyorder mini

A small masked language model of English that is good in any word order: u-PMLM (Liao et al. 2020), trained with a
uniform prior on the masking ratio. It ships with `anyorder` so that everything can be tried at once; it is not a large
language model and knows little.

- Architecture: ModernBERT ({parameters / 1e6:.1f}M parameters), loads with plain `AutoModelForMaskedLM`
- Tokens read in training: {tokens:,}, in blocks of {meta["length"]}
- Held-out any-order loss (eq 6, uniform count): {loss.value:.3f} ± {loss.standard_error:.3f} nats per token over
  {loss.samples:,} blocks: the last {_percent(meta["holdout"])} of documents of each corpus, never trained on
- Perplexity of held-out blocks, each along one order: random {ppl["random"]:.0f}, left to right
  {ppl["sequential"]:.0f} ({len(some)} blocks, 95 % intervals)
- One blank in a held-out block: the likeliest token is the right one in
  {accuracy:.1%}
- Seed {recipe["seed"]}; recipe `recipes/mini.yaml`

## Data

Two text files, one paragraph per line and a blank line between documents: 517 books of 1850–1930 from Project Gutenberg
(public domain in the US), and 7,167 English Wikipedia articles of 2006 from the enwik8 benchmark, markup stripped
(CC BY-SA).

{sums}

## Limits

It writes like its sources: English of a century ago and encyclopaedia prose of 2006, with the prejudices and errors of
both. It has seen rows of at most {meta["length"]} tokens. Do not use it for facts or for decisions about people.

## Samples

{count} of each kind, none chosen: held-out sentences evenly spread over the held-out text, blanks drawn at random; all
texts drawn at temperature 1 in random order, seed 0.

{_samples(lm, held_out, count)}

## Licence

The weights are released under Apache-2.0, like the code.

## The run

```json
{json.dumps(settings, indent=2)}
```
"""


def _percent(shares: list[float]) -> str:
    return " or ".join(f"{share:.0%}" for share in sorted(set(shares)))


def _samples(lm: MaskedLM, held_out: Blocks, count: int) -> str:
    parts = []
    for number, name in ((1, "One blank"), (2, "Two blanks"), (5, "Five blanks")):
        lines = [f"### {name}, filled jointly\n", "| sentence | stood there | filled in |", "|---|---|---|"]
        for one in filled_blanks(lm, held_out, number, count):
            lines.append(f"| {_cell(one.text)} | {_cell(', '.join(one.truth))} | {_cell(', '.join(one.found))} |")
        parts.append("\n".join(lines))
    names = {
        "scatter": f"Words scattered over a text (Figure 1 of Liao et al.): {SCATTER}",
        "begin-end": f"Begin and end given (Figure 4): {BEGIN} … {END}",
        "paragraph": "A paragraph from nothing",
    }
    for use, name in names.items():
        listed = "\n".join(f"{i}. {_cell(text)}" for i, text in enumerate(texts(lm, use, count), 1))
        parts.append(f"### {name}\n\n{listed}")
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    """Text that Markdown leaves alone."""
    return re.sub(r"([\\|*_`<>\[\]#])", r"\\\1", " ".join(text.split()))


if __name__ == "__main__":
    bundle(Path(sys.argv[1]))
