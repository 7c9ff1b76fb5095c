"""Fine-tune a checkpoint with the algorithm it was trained with (Liao et al., section 4.2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anyorder.errors import AnyorderError
from anyorder.files.disk import atomically, sha256
from anyorder.files.json_text import parse_json
from anyorder.training.recipe import DataRecipe, Recipe, RunRecipe, from_dict


def pretraining_recipe(model: Path) -> Recipe | None:
    """The recipe ``anyorder train`` left beside a model, or None."""
    file = model / "recipe.json"
    if not file.exists():
        return None
    try:
        return from_dict(dict(parse_json(file.read_text(encoding="utf-8"))))
    except (ValueError, TypeError) as error:
        raise AnyorderError(f"{file} is damaged ({error}): remove it, or copy it again") from None


def finetune(
    model: Path,
    train_files: list[Path],
    output: Path,
    *,
    steps: int,
    rate: float,
    unit: str,
    length: int,
    predict_padding: bool,
    seed: int,
    device: str | None = None,
    quiet: bool = True,
) -> Path:
    """Train ``model`` further on ``train_files`` with its own objective and optimiser; returns the result's folder.

    A run that was killed goes on from its last checkpoint, and a finished one is used as it is.

    Args:
        model: A folder written by ``anyorder train``.
        train_files: Text files.
        output: Where the run lives.
        steps: Optimiser steps.
        rate: The peak learning rates, as a share of those of pretraining.
        unit: ``document`` or ``line``, see :class:`anyorder.training.recipe.DataRecipe`.
        length: Tokens of a row.
        predict_padding: Fill rows up with [PAD] that is attended to and predicted, as the paper's Table 3 does.
        seed: Of the order of texts and the masks.
        device: Where it is trained; the GPU if there is one, else the CPU.
        quiet: No progress bar.
    """
    base = pretraining_recipe(model)
    if base is None:
        raise AnyorderError(
            f"{model} has no recipe.json, so it is unknown how it was trained: evaluate it as it is "
            "with --finetune-steps 0"
        )
    init = model
    if predict_padding:
        init = _without_separator(model, output.with_name(f"{output.name}-init-{sha256(model)[:12]}"))
    recipe = replace(
        base,
        output=str(output),
        seed=seed,
        init=str(init),
        tokenizer=replace(base.tokenizer, path=str(init)),
        data=DataRecipe(
            files=tuple(str(f) for f in train_files),
            unit=(unit,),
            length=length,
            holdout=(0.0,),
            min_tokens=2 if unit == "line" else base.data.min_tokens,
            pad_to_length=predict_padding,
        ),
        # The steps are counted anew: what began with one of pretraining's is there from the first.
        objective=replace(base.objective, ordered_from=0),
        optim=replace(
            base.optim,
            steps=steps,
            lr=base.optim.lr * rate,
            muon_lr=base.optim.muon_lr * rate,
            warmup=max(1, steps // 10),
            schedule="linear",
            starts=(0,),
            decay=(1.0,),
        ),
        run=RunRecipe(checkpoint_every=max(50, steps // 4), keep=1, threads=base.run.threads, device=device),
    )
    from anyorder.training.trainer import train

    return train(recipe, resume=True, quiet=quiet)


def _without_separator(model: Path, folder: Path) -> Path:
    """A copy of ``model`` whose texts end in [PAD] instead of [SEP].

    The paper's short sentences are followed by [PAD] and nothing else. A [SEP] that is always visible would tell a
    bidirectional model where the sentence ends, and with it which positions hold [PAD]. ``folder`` is named by what
    the model holds: a copy of another one, which the same name may have meant before, is none of this one.
    """
    from anyorder.training.tokenizer import load_tokenizer

    def write(place: Path) -> None:
        for file in [*model.glob("*.safetensors"), *model.glob("*.json")]:
            (place / file.name).write_bytes(file.read_bytes())
        tokenizer = load_tokenizer(model)
        tokenizer.sep_token = tokenizer.pad_token
        tokenizer.save_pretrained(place)  # in the place of the files that were copied

    if not folder.exists():
        atomically(folder, write)
    return folder
