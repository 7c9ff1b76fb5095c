"""`anyorder evaluate pairwise`: Table 1 of Torroba Hennigen & Kim (2023)."""

from __future__ import annotations

from pathlib import Path
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
from anyorder.errors import AnyorderError, choose
from anyorder.show.figure import check_plot_path

if TYPE_CHECKING:
    from anyorder.metrics.pairwise import PairwiseRow

_METHODS = ("mlm", "mrf-logit", "mrf", "hcb", "ag")
_EPILOG = "Example: anyorder evaluate pairwise --data sentences.test.txt.xz --scheme contiguous --examples 200 --resume"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="pairwise", epilog=_EPILOG)(evaluate_pairwise)


def evaluate_pairwise(
    data: Annotated[str, typer.Option(help="A text a line; plain, .gz or .xz.")],
    scheme: Annotated[str, typer.Option(help="random: two tokens anywhere; contiguous: two adjacent ones.")] = "random",
    examples: Annotated[int, typer.Option(min=1, help="How many, from lines drawn at random.")] = 100,
    each: Annotated[int, typer.Option(min=1, help="Pairs drawn from one line.")] = 1,
    method: Annotated[list[str] | None, typer.Option(help="A construction; may be repeated. All if absent.")] = None,
    size: Annotated[int, typer.Option(min=2, max=4, help="Tokens masked together; more than two need few tokens.")] = 2,
    support: Annotated[
        int | None, typer.Option(min=2, help="With --size 3 or 4: so many tokens a position, not the whole vocabulary.")
    ] = None,
    tail: Annotated[
        float | None, typer.Option(help="Examine only the rows that carry mass (ag and mlm; no A-KL), e.g. 1e-3.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Journal of finished examples; runs/pairwise-FILE-SCHEME.jsonl if absent.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write pairwise NLL against token distance to this file.")] = None,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """How good joints over two tokens are: U-PPL, P-PPL, A-KL and G-KL of five constructions, with 95 % intervals.

    Examples differ more than methods do, so P-PPL (and with --json U-PPL) also comes as a ratio to mlm's on the same
    examples.

    Every finished example is written down at once; a run that was stopped goes on with --resume and ends with the same
    table. Lines that are empty, too short or too long are left out and counted.
    """
    possible = ("mlm", "ag") if tail is not None else _METHODS
    methods = [choose(m, possible, "method") for m in method or possible]
    methods = [m for m in _METHODS if m in methods]
    if tail is not None and (not 0 < tail < 1 or size > 2):
        raise AnyorderError("--tail takes a probability such as 1e-3, and pairs of tokens only (--size 2)")
    choose(scheme, ("random", "contiguous"), "scheme")
    check_plot_path(plot)
    lm = load_model(model, allow_pickle, trust_remote_code)
    from anyorder.files.journal import Journal
    from anyorder.studies.pairwise import by_distance, run, table
    from anyorder.tasks.pairs import draw_examples

    if size > 2:
        from anyorder.joints.many import check_size

        check_size(min(support or lm.conditionals.vocab_size, lm.conditionals.vocab_size), size)
    drawn = draw_examples(lm, data, scheme, examples, seed, size, each)
    settings: dict[str, Any] = {
        "model": lm.name,
        "vocab_size": lm.conditionals.vocab_size,
        "data": data,
        "scheme": scheme,
        "methods": methods,
        "size": size,
        "each": each,
        "support": support,
        "tail": tail,
        "seed": seed,
    }
    stem = Path(data).name.removesuffix(".xz").removesuffix(".gz").removesuffix(".txt")
    journal = Journal(
        out or Path("runs") / f"pairwise-{stem}-{scheme}{'' if size == 2 else size}.jsonl", settings, resume=resume
    )
    with progress(quiet=json) as bar:
        rows_each = size * min(support or lm.conditionals.vocab_size, lm.conditionals.vocab_size) ** (size - 1)
        done = min(len(journal.records), len(drawn.examples))
        task = bar.add_task("passes", total=rows_each * len(drawn.examples), completed=rows_each * done)
        records = run(
            lm,
            drawn.examples,
            methods,
            journal,
            tail=tail,
            support=support,
            report=lambda rows: bar.advance(task, rows),
        )
    rows = table(records, methods, seed)
    if plot is not None:
        from anyorder.show.joint_plot import distance_plot

        distance_plot(records, plot, title=f"{Path(lm.name).name}, {Path(data).name}, {scheme} pairs")
    settings |= {
        "examples": len(records),
        "skipped": drawn.skipped,
        "journal": str(journal.path),
        "rows_asked": sum(r["rows"] for r in records),
        "seconds": round(sum(r["seconds"] for r in records), 1),
    }
    if json:
        distance = by_distance(records, methods)
        print_json({"rows": [row.to_dict() for row in rows], "settings": settings, "distance": distance})
    else:
        _print(rows, settings)


def _print(rows: list[PairwiseRow], settings: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table("method", "U-PPL", "P-PPL", "over mlm's", "A-KL", "G-KL", box=SIMPLE)
    table.title = f"{settings['scheme']}, {settings['size']} tokens, {settings['examples']} examples (95 % intervals)"
    for row in rows:
        cells = []
        for name, digits in (("u_ppl", 2), ("p_ppl", 2), ("p_ratio", 2), ("a_kl", 4), ("g_kl", 4)):
            cells.append(f"{getattr(row, name):.{digits}f}")
        table.add_row(row.method, *cells)
    Console().print(table)
    if any(row.method == "hcb" for row in rows):
        print("hcb keeps the model's conditional of the first token given the others; it depends on their order")
    skipped = ", ".join(f"{n} {why}" for why, n in settings["skipped"].items() if n)
    if skipped:
        print(f"lines left out: {skipped}")
    print(f"finished examples: {settings['journal']}")
