"""`anyorder compatibility`: are this model's conditionals those of any joint at all?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    RemoteCodeOption,
    SeedOption,
    SpecialOption,
    load_model,
    print_json,
    progress,
)
from anyorder.errors import choose


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog='Example: anyorder compatibility "The old man opened the door ." --top 20')(compatibility)


def compatibility(
    source: Annotated[str, typer.Argument(metavar="TEXT|FILE", help="A text, or a file with a text a line.")],
    top: Annotated[int, typer.Option(min=2, help="Most probable tokens of each position to look at.")] = 20,
    scheme: Annotated[str, typer.Option(help="Pairs of a file: random or contiguous, one a line.")] = "contiguous",
    examples: Annotated[int, typer.Option(min=1, help="Lines of a file.")] = 20,
    special_tokens: SpecialOption = False,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Whether two conditionals of the model can come from one distribution, pair by pair and as a summary.

    For a text with two blanks, that pair; for one without, every adjacent pair; for a file, one pair a line. "delta" is
    the disagreement of the two cross-ratios in 2x2 rectangles of tokens, in nats; "residual" the mean KL between
    the conditionals and those of the nearest joint (Arnold–Gokhale). Both are zero for a consistent model.
    """
    choose(scheme, ("random", "contiguous"), "scheme")
    lm = load_model(model, allow_pickle, trust_remote_code)
    from anyorder.tasks.compatibility import chosen_pairs, compatibilities, summary_of

    pairs = chosen_pairs(lm, source, scheme, examples, seed)
    with progress(quiet=json) as bar:
        found = compatibilities(lm, pairs, top, special_tokens=special_tokens)
        rows = list(bar.track(found, total=len(pairs), description="pairs"))
    summary = summary_of(rows)
    settings = {"model": lm.name, "source": source, "top": top, "scheme": scheme, "seed": seed, "pairs": len(rows)}
    settings["special_tokens"] = special_tokens
    if json:
        print_json({"rows": rows, "summary": summary, "settings": settings})
    else:
        _print(rows, summary)
        print("Special tokens: " + ("in, as in the paper." if special_tokens else "left out (--special-tokens)."))


def _print(rows: list[dict[str, Any]], summary: dict[str, float]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("pair", "mean δ", "median δ", "max δ", "in the rectangle", "residual", "expected", box=SIMPLE)
    for row in rows:
        a, a2, b, b2 = row["worst"]
        table.add_row(
            Text(" ".join(row["gold"])),
            *(f"{row[name]:.3f}" for name in ("mean", "median", "max")),
            Text(f"{a}|{a2} {b}|{b2}"),
            f"{row['residual']:.4f}",
            f"{row['expected_residual']:.4f}",
        )
    console = Console()
    console.print(table)
    consistent = summary["max"] < 1e-3
    verdict = "consistent with a joint in every rectangle" if consistent else "not those of any joint"
    console.print(
        f"These conditionals are {verdict}: cross-ratios differ by {summary['mean']:.3f} nats on average and "
        f"{summary['max']:.3f} at most; the nearest joint is {summary['residual']:.4f} nats away."
    )
