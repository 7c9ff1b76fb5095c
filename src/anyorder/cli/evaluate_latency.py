"""`anyorder evaluate latency`: Liao et al.'s Table 4, with the quality of what was written beside the time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyorder.cli.common import JsonOption, SeedOption, print_json, progress
from anyorder.cli.evaluate_perplexity import named_models
from anyorder.errors import AnyorderError

_EPILOG = "Example: anyorder evaluate latency --models gpt=runs/gpt/final u-pmlm-a=runs/u-pmlm-a/final"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="latency", epilog=_EPILOG)(evaluate_latency)


def evaluate_latency(
    models: Annotated[list[str], typer.Option(help="name=folder of a masked or causal model; may be repeated.")],
    more: Annotated[list[str] | None, typer.Argument(help="Further models.", show_default=False)] = None,
    judge: Annotated[
        Path | None,
        typer.Option(help="Causal model that judges the texts; the first causal one of --models if absent."),
    ] = None,
    texts: Annotated[int, typer.Option(help="Texts to write.", min=1)] = 100,
    length: Annotated[int, typer.Option(help="Tokens of each, special ones included.", min=3)] = 128,
    batch: Annotated[int, typer.Option(help="Texts written together.", min=1)] = 100,
    steps: Annotated[
        list[int] | None, typer.Option(help="Steps of parallel decoding; 8, 16, 32, 64 if absent.")
    ] = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Time and quality of writing: GPT with its cache, and masked models one token a step or several at once.

    The perplexity is that of the texts under the judge, which favours texts like its own; entropy and distinct pairs
    show when a low one was bought with dull text.
    """
    import torch

    from anyorder.studies.causal import is_causal
    from anyorder.studies.latency import latency

    chosen = named_models([*models, *(more or [])])
    judges = [judge] if judge else [path for path in chosen.values() if is_causal(path)]
    if not judges:
        raise AnyorderError("no causal model to judge the texts: name one with --judge")
    with progress() as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            task = tasks[what] if what in tasks else tasks.setdefault(what, bar.add_task(what, total=total))
            bar.update(task, completed=done)

        rows = latency(
            chosen,
            judges[0],
            texts=texts,
            length=length,
            batch=batch,
            steps=steps or (8, 16, 32, 64),
            seed=seed,
            progress=report,
        )
    settings = {
        "models": {name: str(path) for name, path in chosen.items()},
        "judge": str(judges[0]),
        "length": length,
        "batch": batch,
        "threads": torch.get_num_threads(),
        "seed": seed,
    }
    if json:
        print_json({"rows": [row.to_dict() for row in rows], "settings": settings})
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table("model", "sampler", "steps", "seconds", "PPL", "95 %", "entropy", "distinct", "stutter", box=SIMPLE)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for r in rows:
        quality = (f"{r.perplexity:.1f}", f"{r.low:.1f} to {r.high:.1f}", f"{r.entropy:.2f}")
        table.add_row(
            r.model, r.sampler, str(r.steps), f"{r.seconds:.2f}", *quality, f"{r.distinct_2:.3f}", f"{r.stutter:.4f}"
        )
    Console().print(table)
