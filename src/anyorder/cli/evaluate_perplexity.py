"""`anyorder evaluate perplexity`: Liao et al.'s Tables 2 and 3."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import JsonOption, command, print_json, progress
from anyorder.errors import AnyorderError
from anyorder.show.printable import table as new_table
from anyorder.studies.options import PerplexityOptions
from anyorder.tasks.options import LoadOptions

if TYPE_CHECKING:
    from anyorder.studies.perplexity import Perplexity

_EPILOG = (
    "Example: anyorder evaluate perplexity --models bert=runs/bert/final gpt=runs/gpt/final --data wiki.train.raw.xz "
    "--test wiki.test.raw.xz --finetune-steps 300"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, name="perplexity", epilog=_EPILOG)(evaluate_perplexity)


def named_models(given: list[str]) -> dict[str, Path]:
    """``name=folder`` arguments; a bare folder is named after itself, and no argument is the bundled model."""
    if not given:
        from anyorder.models.load import BUNDLED, BUNDLED_NAME

        return {BUNDLED_NAME: BUNDLED}
    models = {}
    for value in given:
        name, equals, path = value.partition("=")
        models[name if equals else Path(value).name] = Path(path if equals else value)
    if len(models) < len(given):
        raise AnyorderError(
            "each model needs a name of its own: write --models bert=runs/bert/final gpt=runs/gpt/final"
        )
    return models


def evaluate_perplexity(
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
                tasks: dict[str, Any] = {}

                def report(what: str, done: int, total: int, bar: Any = bar, tasks: dict[str, Any] = tasks) -> None:
                    task = tasks[what] if what in tasks else tasks.setdefault(what, bar.add_task(what, total=total))
                    bar.update(task, completed=done)

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
                    progress=report,
                )
        about.append(_about(name, path))
    settings = asdict(options) | {
        "dtype": load.dtype,
        "models": about,
        "data": [str(f) for f in options.data],
        "test": str(options.test),
    }
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
                shape = tensors.get_slice(key).get_shape()
                count = 1
                for n in shape:
                    count *= n
                size += count
    recipe = pretraining_recipe(path)
    seen = recipe.optim.steps * recipe.optim.batch * recipe.data.length if recipe else None
    objective = f"{recipe.objective.name} {recipe.objective.prior}" if recipe else None
    return {"name": name, "path": str(path), "parameters": size, "tokens_seen": seen, "objective": objective}


def _print(rows: list[Perplexity]) -> None:
    from rich.console import Console

    # A column that says the same of all rows only takes room from the others.
    paddings = any(r.padding != "masked" for r in rows)
    shown = new_table(("model", "order", "method", *["padding"] * paddings), ("PPL", "95 %", "texts", "s"))
    for r in rows:
        padding = [r.padding if r.padding == "masked" else f"{r.padding}, counts {r.counted}"] * paddings
        interval = "one text: none" if r.low != r.low else f"{r.low:.2f} to {r.high:.2f}"
        value = (f"{r.perplexity:.2f}", interval, str(r.texts), f"{r.seconds:.1f}")
        shown.add_row(r.model, r.order, r.method, *padding, *value)
    Console().print(shown)
