"""`anyorder evaluate characters`: the any-order bound in nats per character, comparable across tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    RemoteCodeOption,
    SeedOption,
    load_model,
    print_json,
    progress,
)
from anyorder.errors import AnyorderError

_EPILOG = "Example: anyorder evaluate characters --data texts.txt --limit 200 --json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="characters", epilog=_EPILOG)(evaluate_characters)


def evaluate_characters(
    data: Annotated[list[Path] | None, typer.Option(help="A file of texts, one per line; may be repeated.")] = None,
    held_out: Annotated[
        list[Path] | None,
        typer.Option(help="A training file of which only the last documents were held out; may be repeated."),
    ] = None,
    share: Annotated[float, typer.Option(help="Of a --held-out file's documents: what its recipe held out.")] = 0.01,
    samples: Annotated[int, typer.Option(help="Masks per text of the bound.")] = 16,
    limit: Annotated[int | None, typer.Option(help="So many texts of each file, evenly spread.")] = None,
    seed: SeedOption = 0,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
    json: JsonOption = False,
) -> None:
    """The any-order bound on held-out texts in nats per character, with 95 % intervals over texts."""
    from rich.console import Console
    from rich.table import Table

    from anyorder.studies.characters import paragraphs, per_character

    if not data and not held_out:
        raise AnyorderError("no texts given: name files with --data or --held-out")
    if not 0 < share < 1:
        raise AnyorderError(f"the held-out share is between 0 and 1, not {share}: try 0.01")
    files = [(path, None) for path in data or []] + [(path, share) for path in held_out or []]
    sets = {str(path): paragraphs(path, part, limit) for path, part in files}
    lm = load_model(model, allow_pickle, trust_remote_code)
    rows = []
    with progress(json) as bar:
        for name, texts in sets.items():
            task = bar.add_task(Path(name).name, total=len(texts))

            def report(done: int, task: Any = task) -> None:
                bar.update(task, completed=done)

            rows.append(per_character(lm, name, texts, samples, seed, report))
    if json:
        settings = {"model": lm.name, "samples": samples, "limit": limit, "held_out": share, "seed": seed}
        print_json({"rows": [row.to_dict() for row in rows], "settings": settings})
        return
    table = Table("texts of", "texts", "nats per character", "95 %", "per token")
    for row in rows:
        interval = f"{row.low:.3f} to {row.high:.3f}"
        cells = (str(row.texts), f"{row.nats_per_character:.3f}", interval, f"{row.nats_per_token:.3f}")
        table.add_row(Path(row.name).name, *cells)
    Console().print(table)
