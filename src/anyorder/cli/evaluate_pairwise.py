"""`anyorder evaluate pairwise`: Table 1 of Torroba Hennigen & Kim (2023)."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOptions,
    OverwriteOption,
    PlotOption,
    ResumeOption,
    command,
    load_model,
    print_json,
    progress,
    show,
)
from anyorder.cli.evaluate import evaluate_app
from anyorder.errors import AnyorderError, count
from anyorder.show.figure import check_plot_path
from anyorder.show.printable import table as new_table
from anyorder.studies.options.likelihood import PairwiseOptions

if TYPE_CHECKING:
    from anyorder.metrics.pairwise import PairwiseRow


@command(
    "anyorder evaluate pairwise --data sentences.test.txt.xz --scheme contiguous --examples 200 --resume", evaluate_app
)
def pairwise(
    data: Annotated[str, typer.Option(help="One text per line; plain, .gz or .xz.")],
    options: PairwiseOptions,
    model: ModelOptions,
    out: Annotated[
        Path | None, typer.Option(help="Journal of finished examples; runs/pairwise-FILE-SCHEME.jsonl if absent.")
    ] = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """How good joints over two tokens are: U-PPL, P-PPL, A-KL and G-KL of five constructions, with 95 % intervals.

    Examples differ more than methods do, so P-PPL (and with --json U-PPL) also comes as a ratio to mlm's on the same
    examples.

    Every finished example is written down at once; a run that was stopped goes on with --resume and ends with the same
    table. Lines that are empty, too short or too long are left out and counted.
    """
    check_plot_path(plot)
    methods, size, support, scheme = options.methods, options.size, options.support, options.scheme
    stem = Path(data).name.removesuffix(".xz").removesuffix(".gz").removesuffix(".txt")
    path = out or Path("runs") / f"pairwise-{stem}-{scheme}{'' if size == 2 else size}.jsonl"
    if path.is_file() and not (resume or overwrite):  # before the model is loaded
        raise AnyorderError(f"{path} exists: go on with --resume, replace it with --overwrite, or choose another --out")
    from anyorder.tasks.syntax import load_parser, syntactic

    parse = load_parser(options.parser or "en_core_web_sm") if options.distance == "syntactic" else None
    lm = load_model(model)
    from anyorder.files.disk import only_writer
    from anyorder.files.journal import Journal
    from anyorder.files.reading import Source
    from anyorder.studies.pairwise import by_distance, run, table
    from anyorder.tasks.pairs import draw_examples

    vocab_size = lm.conditionals.vocab_size
    tokens = min(support or vocab_size, vocab_size)  # of each position
    if size > 2:
        from anyorder.joints.many import check_size

        check_size(tokens, size)
    drawn = draw_examples(lm, data, scheme, options.examples, options.seed, size, options.each)
    settings: dict[str, Any] = {"model": lm.name, "dtype": model.dtype, "vocab_size": vocab_size, "data": data}
    settings |= asdict(options) | {"methods": methods}
    # The number of examples may grow when a run is continued; how its distances are counted does not matter to it.
    for name in ("method", "examples", "distance", "parser"):
        del settings[name]
    with only_writer(path), progress(quiet=json) as bar:
        journal = Journal(path, settings, resume=resume, overwrite=overwrite)
        rows_each = size * tokens ** (size - 1)
        done = min(len(journal.records), len(drawn.examples))
        task = bar.add_task("passes", total=rows_each * len(drawn.examples), completed=rows_each * done)
        records = run(
            lm,
            drawn.examples,
            methods,
            journal,
            tail=options.tail,
            support=support,
            report=lambda rows: bar.advance(task, rows),
        )
    rows = table(records, methods, options.seed)
    if parse is not None:
        records = syntactic(records, list(Source(data)), lm.tokenizer, parse)
    if plot is not None:
        from anyorder.show.joint_plot import distance_plot

        distance_plot(
            records, plot, title=f"{Path(lm.name).name}, {Path(data).name}, {scheme} pairs", kind=options.distance
        )
    settings |= {
        "examples": len(records),
        "distance": options.distance,
        "parser": options.parser,
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
    title = f"{settings['scheme']}, {settings['size']} tokens, {count(settings['examples'], 'example')}"
    if settings["examples"] > 1:  # one alone has none
        title += " (95 % intervals)"
    shown = new_table(("method",), ("U-PPL", "P-PPL", "over mlm's", "A-KL", "G-KL"), title=title)
    for row in rows:
        found = [getattr(row, name) for name in ("u_ppl", "p_ppl", "p_ratio", "a_kl", "g_kl")]
        # The interval below its value: side by side they would not fit a terminal of 80 columns.
        cells = [f"{_short(x.value)}\n{_short(x.low)}–{_short(x.high)}" for x in found]
        cells = [cell if x.low == x.low else _short(x.value) for x, cell in zip(found, cells, strict=True)]
        known = [cell if x.value == x.value else "not\nmeasured" for x, cell in zip(found, cells, strict=True)]
        shown.add_row(row.method, *known)
    show(shown)
    if any(row.method == "hcb" for row in rows):
        show("hcb keeps the model's conditional of the first token given the others; it depends on their order")
    skipped = ", ".join(f"{n} {why}" for why, n in settings["skipped"].items() if n)
    if skipped:
        print(f"lines left out: {skipped}")
    print(f"finished examples: {settings['journal']}")


def _short(value: float) -> str:
    """Three digits that count, never an exponent."""
    if not math.isfinite(value):
        return "?"
    digits = 2 - math.floor(math.log10(abs(value))) if value else 2
    return f"{value:.{min(max(digits, 0), 5)}f}"
