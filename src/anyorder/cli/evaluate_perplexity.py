"""`anyorder evaluate perplexity`: Liao et al.'s Tables 2 and 3."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import JsonOption, SeedOption, print_json, progress
from anyorder.errors import AnyorderError, choose

if TYPE_CHECKING:
    from anyorder.studies.perplexity import Perplexity

_EPILOG = (
    "Example: anyorder evaluate perplexity --models bert=runs/bert/final gpt=runs/gpt/final --data wiki.train.raw.xz "
    "--test wiki.test.raw.xz --finetune-steps 300"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="perplexity", epilog=_EPILOG)(evaluate_perplexity)


def named_models(given: list[str]) -> dict[str, Path]:
    """``name=folder`` arguments; a bare folder is named after itself."""
    models = {}
    for value in given:
        name, equals, path = value.partition("=")
        models[name if equals else Path(value).name] = Path(path if equals else value)
    if len(models) < len(given) or not models:
        raise AnyorderError(
            "each model needs a name of its own: write --models bert=runs/bert/final gpt=runs/gpt/final"
        )
    return models


def evaluate_perplexity(
    models: Annotated[list[str], typer.Option(help="name=folder of a masked or causal model; may be repeated.")],
    test: Annotated[Path, typer.Option(help="The test text, plain, .gz or .xz.")],
    more: Annotated[list[str] | None, typer.Argument(help="Further models.", show_default=False)] = None,
    data: Annotated[list[Path] | None, typer.Option(help="Training text to fine-tune on first.")] = None,
    finetune_steps: Annotated[int, typer.Option(help="Steps of fine-tuning, with the model's own algorithm.")] = 0,
    finetune_rate: Annotated[float, typer.Option(help="Learning rate, as a share of that of pretraining.")] = 0.3,
    unit: Annotated[str, typer.Option(help="document: full contexts; line: every line is a text.")] = "document",
    length: Annotated[int, typer.Option(help="Tokens of a context, special ones included.")] = 128,
    padding: Annotated[
        list[str] | None,
        typer.Option(help="masked: [PAD] is not attended to; predicted: the paper's way. May be repeated."),
    ] = None,
    random: Annotated[
        list[str] | None, typer.Option(help="How random order is measured: chain, bound. Both if absent.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Masks a context of the bound.")] = 16,
    limit: Annotated[int | None, typer.Option(help="So many contexts, evenly spread over the test text.")] = None,
    work: Annotated[Path, typer.Option(help="Where fine-tuned models go; a killed run goes on from there.")] = Path(
        "runs/perplexity"
    ),
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Perplexity left to right and in random order, of masked and causal models, fine-tuned first if asked.

    Table 2: --length 128. Table 3: --length 50 --unit line --padding masked --padding predicted; the rows of
    "predicted" come twice, counting words only, and counting [PAD] too.
    """
    from anyorder.studies.perplexity import PADDINGS, evaluate

    chosen = named_models([*models, *(more or [])])
    choose(unit, ("document", "line"), "unit")
    arms = [choose(p, PADDINGS, "padding") for p in padding or ["masked"]]
    methods = [choose(m, ("chain", "bound"), "method") for m in random or ["chain", "bound"]]
    if finetune_steps and not data:
        raise AnyorderError("fine-tuning needs a training text: name it with --data")
    if "predicted" in arms and not finetune_steps:
        raise AnyorderError("a model learns to predict [PAD] by fine-tuning: add --data and --finetune-steps")
    for file in [test, *(data or [])]:
        if not file.is_file():
            raise AnyorderError(f"there is no file {file}: check the path")
    rows: list[Perplexity] = []
    about: list[dict[str, Any]] = []
    for name, path in chosen.items():
        for arm in arms:
            ready = path
            if finetune_steps:
                from anyorder.studies.finetune import finetune

                ready = finetune(
                    path,
                    data or [],
                    work / f"{name}-{arm}",
                    steps=finetune_steps,
                    rate=finetune_rate,
                    unit=unit,
                    length=length,
                    predict_padding=arm == "predicted",
                    seed=seed,
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
                    test,
                    unit=unit,
                    length=length,
                    padding=arm,
                    random=methods,
                    samples=samples,
                    limit=limit,
                    seed=seed,
                    progress=report,
                )
        about.append(_about(name, path))
    settings = {
        "models": about,
        "data": [str(f) for f in data or []],
        "test": str(test),
        "finetune_steps": finetune_steps,
        "finetune_rate": finetune_rate,
        "unit": unit,
        "length": length,
        "samples": samples,
        "limit": limit,
        "seed": seed,
    }
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
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    names = ("model", "order", "method", "padding", "counted", "PPL", "95 %", "texts", "passes", "seconds")
    table = Table(*names, box=SIMPLE)
    table.columns[0].no_wrap = table.columns[5].no_wrap = True
    for r in rows:
        interval = "one text: none" if r.low != r.low else f"{r.low:.2f} to {r.high:.2f}"
        value = (f"{r.perplexity:.2f}", interval, str(r.texts), str(r.passes), f"{r.seconds:.1f}")
        table.add_row(r.model, r.order, r.method, r.padding, r.counted, *value)
    Console().print(table)
