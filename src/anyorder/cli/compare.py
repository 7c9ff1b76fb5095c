"""`anyorder compare`: which of two sentences is more probable, or how often the acceptable one is."""

from __future__ import annotations

from typing import Annotated

import typer

from anyorder.cli.common import JsonOption, ModelOptions, bars, command, load_model, print_json, progress, show
from anyorder.errors import AnyorderError, count
from anyorder.show.printable import printable, table
from anyorder.studies.options.likelihood import CompareOptions
from anyorder.tasks.options import ScoreOptions

METHODS = ("pll", "pll-word", "chain", "bound")


@command("anyorder compare 'The cats sleep.' 'The cats sleeps.'   or   anyorder compare --data blimp/*.jsonl.xz")
def compare(
    options: CompareOptions,
    model: ModelOptions,
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Two sentences; or, with --data, further files.", show_default=False)
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Minimal pairs in BLiMP's format, .jsonl, .jsonl.gz or .jsonl.xz.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare two sentences, or score files of minimal pairs: accuracy by paradigm and method, with 95 % intervals.

    Every method asks the model read in full, so that what differs between them is the method.
    """
    methods = [
        ScoreOptions(name, samples=options.samples if name == "bound" else None, seed=options.seed, reading="full")
        for name in dict.fromkeys(options.method or METHODS)
    ]
    given = sentences or []
    if data:
        _files([*data, *given], methods, options, model, json)  # so that `--data *.jsonl` works as the shell expands it
    elif len(given) == 2:
        _two(given[0], given[1], methods, model, json)
    else:
        raise AnyorderError(
            f"{count(len(given), 'sentence')} given: give two, in quotes, or files of pairs with --data"
        )


def _two(a: str, b: str, methods: list[ScoreOptions], model: ModelOptions, json: bool) -> None:
    from rich.text import Text

    from anyorder.studies.minimal_pairs import compare as compare_two

    rows = compare_two(load_model(model), a, b, methods)
    if json:
        print_json({"a": a, "b": b, "methods": [row.to_dict() for row in rows]})
        return
    print(f"A: {printable(a)}\nB: {printable(b)}\n")
    shown = table(("method", "more probable"), ("A", "B", "A - B"))
    for row in rows:
        error = f" ± {row.standard_error:.2f}" if row.standard_error else ""
        cells = (f"{row.log_prob_a:.2f}", f"{row.log_prob_b:.2f}", f"{row.difference:+.2f}{error}")
        shown.add_row(row.method, Text({"a": "A", "b": "B"}.get(row.prefers, row.prefers)), *cells)
    show(shown)


def _files(
    files: list[str], methods: list[ScoreOptions], options: CompareOptions, model: ModelOptions, json: bool
) -> None:
    from anyorder.studies.minimal_pairs import accuracies, read_pairs

    pairs = [pair for path in files for pair in read_pairs(path, options.limit)]
    lm = load_model(model)
    with progress() as bar:
        rows = accuracies(lm, pairs, methods, bars(bar))
    if json:
        settings = {
            "model": lm.name,
            "files": files,
            "limit": options.limit,
            "samples": next((m.samples for m in methods if m.samples), None),
            "seed": options.seed,
        }
        print_json({"rows": [row.to_dict() for row in rows], "settings": settings})
        return
    shown = table(("paradigm", "method"), ("pairs", "accuracy", "95 %"))
    last = None
    for row in rows:
        name, last = "" if row.paradigm == last else row.paradigm, row.paradigm
        shown.add_row(name, row.method, str(row.pairs), f"{row.accuracy:.3f}", f"{row.low:.3f} to {row.high:.3f}")
    show(shown)
