"""`anyorder compare`: which of two sentences is more probable, or how often the acceptable one is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

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
from anyorder.cli.score import METHODS
from anyorder.errors import AnyorderError, choose

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM
    from anyorder.tasks.score import Method

_EXAMPLE = (
    "Example: anyorder compare 'The cats sleep.' 'The cats sleeps.'   or   anyorder compare --data blimp/*.jsonl.xz"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLE)(compare)


def compare(
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Two sentences; or, with --data, further files.", show_default=False)
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Minimal pairs in BLiMP's format, .jsonl, .jsonl.gz or .jsonl.xz.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="pll, pll-word, chain or bound; may be repeated. All if absent.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Masks a text of the bound.")] = 16,
    limit: Annotated[int | None, typer.Option(help="At most so many pairs of each file.")] = None,
    json: JsonOption = False,
    seed: SeedOption = 0,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Compare two sentences, or score files of minimal pairs: accuracy by paradigm and method, with 95 % intervals."""
    from anyorder.tasks.score import Method

    names = [choose(name, METHODS, "method") for name in dict.fromkeys(method or METHODS)]
    methods = [Method(name, samples=samples if name == "bound" else None, seed=seed) for name in names]
    given = sentences or []
    load = partial(load_model, model, allow_pickle, trust_remote_code)
    if data:
        files = [*data, *given]  # so that `--data *.jsonl` works as the shell expands it
        _files(files, methods, limit, load, json)
    elif len(given) == 2:
        _two(given[0], given[1], methods, load, json)
    else:
        raise AnyorderError(f"{len(given)} sentences given: give two, in quotes, or files of pairs with --data")


def _two(a: str, b: str, methods: list[Method], load: Callable[[], MaskedLM], json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from anyorder.studies.minimal_pairs import compare as compare_two

    rows = compare_two(load(), a, b, methods)
    if json:
        print_json({"a": a, "b": b, "methods": [row.to_dict() for row in rows]})
        return
    table = Table("method", "A", "B", "A - B", "more probable")
    for row in rows:
        error = f" ± {row.standard_error:.2f}" if row.standard_error else ""
        winner = {"a": f"A: {a}", "b": f"B: {b}"}.get(row.prefers, row.prefers)
        cells = (f"{row.log_prob_a:.2f}", f"{row.log_prob_b:.2f}", f"{row.difference:+.2f}{error}")
        table.add_row(row.method, *cells, winner)
    Console().print(table)


def _files(
    files: list[str], methods: list[Method], limit: int | None, load: Callable[[], MaskedLM], json: bool
) -> None:
    from rich.console import Console
    from rich.table import Table

    from anyorder.studies.minimal_pairs import accuracies, read_pairs

    pairs = [pair for path in files for pair in read_pairs(path, limit)]
    lm = load()
    with progress() as bar:
        tasks: dict[str, Any] = {m.name: bar.add_task(m.name, total=None) for m in methods}
        rows = accuracies(
            lm, pairs, methods, lambda name, done, total: bar.update(tasks[name], completed=done, total=total)
        )
    if json:
        settings = {
            "model": lm.name,
            "files": files,
            "limit": limit,
            "samples": next((m.samples for m in methods if m.samples), None),
            "seed": methods[0].seed,
        }
        print_json({"rows": [row.to_dict() for row in rows], "settings": settings})
        return
    table = Table("paradigm", "pairs", *(m.name for m in methods))
    for name in dict.fromkeys(row.paradigm for row in rows):
        mine = [row for row in rows if row.paradigm == name]
        table.add_row(name, str(mine[0].pairs), *(f"{r.accuracy:.3f} [{r.low:.3f}, {r.high:.3f}]" for r in mine))
    Console().print(table)
