"""`anyorder compatibility`: are this model's conditionals those of any joint at all?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from anyorder.cli.common import JsonOption, ModelOptions, command, load_model, print_json, progress, said_of, show
from anyorder.show.printable import printable, table
from anyorder.studies.options.likelihood import CompatibilityOptions


@command('anyorder compatibility "The old man opened the door ." --top 20')
def compatibility(
    source: Annotated[str, typer.Argument(metavar="TEXT|FILE", help="A text, or a file with one text per line.")],
    options: CompatibilityOptions,
    model: ModelOptions,
    json: JsonOption = False,
) -> None:
    """Whether two conditionals of the model can come from one distribution, pair by pair and as a summary.

    For a text with two blanks, that pair; for one without, every adjacent pair; for a file, one pair per line. "δ" is
    the disagreement of the two cross-ratios in 2x2 rectangles of tokens, in nats; "residual" the mean KL between
    the conditionals and those of the nearest joint (Arnold–Gokhale). Both are zero for a consistent model.
    """
    lm = load_model(model)
    from anyorder.tasks.compatibility import chosen_pairs, compatibilities, summary_of

    pairs = chosen_pairs(lm, source, options.scheme, options.examples, options.seed)
    with progress(quiet=json) as bar:
        each = compatibilities(lm, pairs, options.top, special_tokens=options.special_tokens)
        rows = list(bar.track(each, total=len(pairs), description="pairs"))
    summary = summary_of(rows)
    settings = {"model": lm.name, "source": source, **asdict(options), "pairs": len(rows)}
    if json:
        print_json({"rows": rows, "summary": summary, "settings": settings})
    else:
        _print(rows, summary)
        print("Special tokens: " + said_of(options.special_tokens))


def _print(rows: list[dict[str, Any]], summary: dict[str, float]) -> None:
    from rich.text import Text

    shown = table(("pair", "worst rectangle"), ("mean δ", "median", "max", "residual", "expected"))
    for row in rows:
        a, a2, b, b2 = row["worst"]
        shown.add_row(
            Text(printable(" ".join(row["gold"]))),
            Text(printable(f"{a}|{a2} {b}|{b2}")),
            *(f"{row[name]:.3f}" for name in ("mean", "median", "max")),
            f"{row['residual']:.4f}",
            f"{row['expected_residual']:.4f}",
        )
    consistent = summary["max"] < 1e-3
    verdict = "consistent with a joint in every rectangle" if consistent else "not those of any joint"
    show(
        shown,
        f"These conditionals are {verdict}: cross-ratios differ by {summary['mean']:.3f} nats on average and "
        f"{summary['max']:.3f} at most; the nearest joint is {summary['residual']:.4f} nats away.",
    )
