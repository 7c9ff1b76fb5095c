"""`anyorder train`: train a model from a recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from anyorder.cli.common import command, progress
from anyorder.errors import choose

PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}  # by the names that the other commands use


@command("anyorder train recipes/mini.yaml --data-dir ~/corpus --set optim.steps=200 --set output=runs/try")
def train(
    recipe: Annotated[
        Path, typer.Argument(help="A YAML file such as recipes/mini.yaml; training/recipe.py explains every field.")
    ],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: key=value, such as optim.lr=1e-3. Repeatable.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the files the recipe names.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice; the recipe's if absent.")] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Where to train: cpu, cuda, cuda:1, mps. If absent a GPU, if there is one."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Precision of training: float32 or bfloat16; the recipe's if absent.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the recipe's output folder.")] = False,
    distill: Annotated[
        str | None,
        typer.Option("--distill", help="For pairs: a model that rewrites all targets first."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train a masked LM that is good in any order, from scratch or from any checkpoint (init: bert-base-cased).

    It may be killed at any moment: --resume goes on from the last checkpoint and ends with the same weights. Runs on
    several processes or machines under torchrun or accelerate launch, unchanged.
    """
    from anyorder.training.recipe import load_recipe

    precision = None if dtype is None else PRECISIONS[choose(dtype, PRECISIONS, "dtype")]
    said = {"seed": seed, "run.device": device, "precision": precision}
    settings = [f"{key}={value}" for key, value in said.items() if value is not None]
    parsed = load_recipe(recipe, [*(overrides or []), *settings])
    from anyorder.training.trainer import train as run

    if distill is not None:
        import torch

        import anyorder
        from anyorder.studies.distill import distilled

        kind = torch.bfloat16 if parsed.precision == "bf16" else torch.float32
        teacher = anyorder.load(distill, device=parsed.run.device, dtype=kind)
        with progress(quiet) as bar:
            task = bar.add_task("rewriting the targets", total=None)
            parsed = distilled(parsed, data_dir, teacher, lambda done: bar.update(task, completed=done))
        data_dir = None
    final = run(parsed, resume=resume, data_dir=data_dir, quiet=quiet)
    if os.environ.get("RANK", "0") == "0":
        print(f"The model is in {final}; try it: anyorder fill 'The ___ is on the table.' --model {final}")
