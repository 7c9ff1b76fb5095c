"""`anyorder evaluate perplexity`: Liao et al.'s Tables 2 and 3."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import JsonOption, bars, command, print_json, progress, show
from anyorder.cli.evaluate import evaluate_app, named_models
from anyorder.show.printable import table as new_table
from anyorder.studies.options.likelihood import PerplexityOptions
from anyorder.tasks.options import LoadOptions

if TYPE_CHECKING:
    from anyorder.studies.perplexity import Perplexity


@command(
    "anyorder evaluate perplexity --models bert=runs/bert/final gpt=runs/gpt/final --data wiki.train.raw.xz "
    "--test wiki.test.raw.xz --finetune-steps 300",
    evaluate_app,
)
def perplexity(
    options: PerplexityOptions,
    load: LoadOptions,
    more: Annotated[list[str] | None, typer.Argument(help="Further models.", show_default=False)] = None,
    json: JsonOption = False,
) -> None:
    """Perplexity left to right and in random order, of masked and causal models, fine-tuned first if asked.

    Table 2: --length 128. Table 3: --length 50 --unit line --padding masked --padding predicted; the rows of
    "predicted" come twice, counting words only, and counting [PAD] too.
    """
    from anyorder.studies.perplexity import evaluate

    chosen = named_models([*options.models, *(more or [])])
    rows: list[Perplexity] = []
    about: list[dict[str, Any]] = []
    for name, path in chosen.items():
        for arm in options.padding:
            ready = path
            if options.finetune_steps:
                from anyorder.studies.finetune import finetune

                ready = finetune(
                    path,
                    list(options.data),
                    options.work / f"{name}-{arm}",
                    steps=options.finetune_steps,
                    rate=options.finetune_rate,
                    unit=options.unit,
                    length=options.length,
                    predict_padding=arm == "predicted",
                    seed=options.seed,
                    device=load.device,
                    quiet=json,
                )
            with progress() as bar:
                rows += evaluate(
                    name,
                    ready,
                    options.test,
                    unit=options.unit,
                    length=options.length,
                    padding=arm,
                    random=options.random,
                    samples=options.samples,
                    limit=options.limit,
                    seed=options.seed,
                    load=load,
                    progress=bars(bar),
                )
        about.append(_about(name, path))
    settings = asdict(options) | {"dtype": load.dtype, "models": about}
    del settings["work"]
    if json:
        print_json({"rows": [row.to_dict() for row in rows], "settings": settings})
    else:
        _print(rows)


def _about(name: str, path: Path) -> dict[str, Any]:
    """What a reader of the table wants to know of a model: its size and what it has seen."""
    from safetensors import safe_open

    from anyorder.studies.finetune import pretraining_recipe

    size = 0
    for file in path.glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 - not a mapping
                size += math.prod(tensors.get_slice(key).get_shape())
    recipe = pretraining_recipe(path)
    seen = recipe.optim.steps * recipe.optim.batch * recipe.data.length if recipe else None
    objective = f"{recipe.objective.name} {recipe.objective.prior}" if recipe else None
    return {"name": name, "path": str(path), "parameters": size, "tokens_seen": seen, "objective": objective}


def _print(rows: list[Perplexity]) -> None:
    # A column that says the same of all rows only takes room from the others.
    paddings = any(r.padding != "masked" for r in rows)
    shown = new_table(("model", "order", "method", *["padding"] * paddings), ("PPL", "95 %", "texts", "s"))
    for r in rows:
        padding = [r.padding if r.padding == "masked" else f"{r.padding}, counts {r.counted}"] * paddings
        interval = "one text: none" if r.low != r.low else f"{r.low:.2f} to {r.high:.2f}"
        value = (f"{r.perplexity:.2f}", interval, str(r.texts), f"{r.seconds:.1f}")
        shown.add_row(r.model, r.order, r.method, *padding, *value)
    show(shown)
