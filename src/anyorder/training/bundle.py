"""Put a trained model into the package: half-precision weights, tokenizer, and a card that says what it is.

python -m anyorder.training.bundle runs/mini/final
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM

from anyorder.errors import AnyorderError
from anyorder.models.load import BUNDLED
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
    (target / "README.md").write_text(card(final.parent, model.num_parameters()), encoding="utf-8")


def card(run: Path, parameters: int) -> str:
    """The model card, every figure of it read from the run's own files."""
    readings = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    validation = next(r for r in reversed(readings) if "validation" in r)
    recipe = json.loads((run / "final" / "recipe.json").read_text())
    settings = {key: value for key, value in recipe.items() if key not in ("output", "run")}  # what decides the result
    meta: dict[str, Any] = json.loads(next((run / "cache").glob("*/meta.json")).read_text())
    loss = validation["validation"]
    sums = "\n".join(f"- `{name}`, sha256 `{digest}`" for name, digest in meta["files"].items())
    return f"""# anyorder mini

A small masked language model of English that is good in any word order: u-PMLM (Liao et al. 2020), trained with a
uniform prior on the masking ratio. It ships with `anyorder` so that everything can be tried at once; it is not a large
language model and knows little.

- Architecture: ModernBERT ({parameters / 1e6:.1f}M parameters), loads with plain `AutoModelForMaskedLM`
- Tokens read in training: {validation["tokens"]:,}, in blocks of {meta["length"]}
- Held-out any-order loss (eq 6, uniform count): {loss["value"]:.3f} ± {loss["standard_error"]:.3f} nats a token over
  {loss["samples"]} blocks of the last {meta["holdout"]:.0%} of documents of each corpus, never trained on
- Seed {recipe["seed"]}; recipe `recipes/mini.yaml`

## Data

Two text files, a paragraph a line and a blank line between documents: 517 books of 1850–1930 from Project Gutenberg
(public domain in the US), and 7,167 English Wikipedia articles of 2006 from the enwik8 benchmark, markup stripped
(CC BY-SA).

{sums}

## Limits

It writes like its sources: English of a century ago and encyclopaedia prose of 2006, with the prejudices and errors of
both. It has seen rows of at most {meta["length"]} tokens. Do not use it for facts or for decisions about people.

## Licence

The weights are released under Apache-2.0, like the code.

## The run

```json
{json.dumps(settings, indent=2)}
```
"""


if __name__ == "__main__":
    bundle(Path(sys.argv[1]))
