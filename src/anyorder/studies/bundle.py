"""Put a trained model into the package: half-precision weights, tokenizer, curve, and a card.

python -m anyorder.studies.bundle runs/bundled/final --data-dir FOLDER
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForMaskedLM

import anyorder
from anyorder.errors import AnyorderError
from anyorder.metrics.curve import NAME
from anyorder.models.load import BUNDLED
from anyorder.studies.bars import measure
from anyorder.studies.card import card, held_out_texts
from anyorder.studies.schedule import measure_curve
from anyorder.training.tokenizer import load_tokenizer

LIMIT = 32 * 10**6  # bytes of weights the package may carry


def bundle(
    final: Path,
    data_dir: Path | None = None,
    target: Path = BUNDLED,
    allow_short: bool = False,
    pairs_limit: int | None = None,
    start: str | None = None,
) -> None:
    """Copy the model in ``final`` to ``target`` in half precision, with its curve and its card.

    fp16 rather than bf16: the weights are far from fp16's range, and three more bits of each are kept. What was there
    stays until the new model is measured, in half precision as it will be shipped.

    Args:
        final: The last folder of a training run.
        data_dir: Where the texts of the bars lie; None leaves them unmeasured, which needs ``allow_short``.
        target: Where it goes.
        allow_short: Also take a model that falls short of the bars.
        pairs_limit: At most this many minimal pairs of each set; None: all of them.
        start: What the model was started from, as its card says it; None: the recipe's ``init``.
    """
    model = AutoModelForMaskedLM.from_pretrained(final, dtype=torch.float16)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > LIMIT:
        raise AnyorderError(
            f"{final} takes {size / 1e6:.1f} MB in half precision, more than the package's {LIMIT / 1e6:.0f} MB"
        )
    if data_dir is None and not allow_short:
        raise AnyorderError("the bars need their texts: name their folder with --data-dir, or add --allow-short")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model"
        model.save_pretrained(made)
        load_tokenizer(final).save_pretrained(made)
        (made / "model.safetensors").chmod(0o644)  # safetensors writes files only their owner can read
        lm = anyorder.load(made)
        measured = measure(lm, data_dir, pairs_limit=pairs_limit) if data_dir else None
        if measured and measured.short and not allow_short:
            raise AnyorderError(f"the model falls short ({'; '.join(measured.short)}): add --allow-short to take it")
        special = lm.tokenizer.all_special_ids
        texts = [text[~np.isin(text, special)].tolist() for text in held_out_texts(lm, final.parent)]
        measure_curve(lm, texts).curve.write(made / NAME)
        (made / "README.md").write_text(card(final.parent, lm, measured, start), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Put a trained model into the package.")
    parser.add_argument("final", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--allow-short", action="store_true", help="also take a model that falls short of the bars")
    parser.add_argument("--pairs-limit", type=int, help="at most this many minimal pairs of each set; all if absent")
    parser.add_argument("--start", help="what the model was started from, for its card; the recipe's init if absent")
    bundle(**vars(parser.parse_args()))
