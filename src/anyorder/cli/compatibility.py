"""`anyorder compatibility`: are this model's conditionals those of any joint at all?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    SeedOption,
    choose,
    load_model,
    print_json,
    progress,
)
from anyorder.errors import AnyorderError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog='Example: anyorder compatibility "The old man opened the door ." --top 20')(compatibility)


def compatibility(
    source: Annotated[str, typer.Argument(metavar="TEXT|FILE", help="A text, or a file with a text a line.")],
    top: Annotated[int, typer.Option(min=2, help="Most probable tokens of each position to look at.")] = 20,
    scheme: Annotated[str, typer.Option(help="Pairs of a file: random or contiguous, one a line.")] = "contiguous",
    examples: Annotated[int, typer.Option(min=1, help="Lines of a file.")] = 20,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Whether two conditionals of the model can come from one distribution, pair by pair and as a summary.

    For a text with two blanks, that pair; for one without, every adjacent pair; for a file, one pair a line. "delta" is
    the disagreement of the two cross-ratios in 2x2 rectangles of tokens, in nats; "residual" the mean KL between
    the conditionals and those of the nearest joint (Arnold–Gokhale). Both are zero for a consistent model.
    """
    choose(scheme, ("random", "contiguous"), "scheme")
    lm = load_model(model, allow_pickle)
    from anyorder.joints.compatibility import Compatibility
    from anyorder.joints.compatibility import compatibility as measure

    pairs = _pairs(lm, source, scheme, examples, seed)
    rows: list[dict[str, Any]] = []
    found: list[Compatibility] = []
    with progress(quiet=json) as bar:
        for example in bar.track(pairs, description="pairs"):
            result = measure(lm.conditionals, example.tokens, example.a, example.b, top=top)
            found.append(result)
            words = lm.tokenizer.convert_ids_to_tokens
            row = result.to_dict()
            row["worst"] = words(list(result.worst))
            rows.append({"line": example.line, "gold": words(list(example.gold)), **row})
    names = ("mean", "median", "max", "residual", "expected_residual")
    summary = {name: sum(getattr(r, name) for r in found) / len(found) for name in names}
    summary["max"] = max(r.max for r in found)
    settings = {"model": lm.name, "source": source, "top": top, "scheme": scheme, "seed": seed, "pairs": len(rows)}
    if json:
        print_json({"rows": rows, "summary": summary, "settings": settings})
    else:
        _print(rows, summary)


def _pairs(lm: Any, source: str, scheme: str, examples: int, seed: int) -> list[Any]:
    from anyorder.evaluation.pairs import Example, draw_examples, text_pairs

    if _is_file(source):
        return draw_examples(lm, source, scheme, examples, seed).examples
    if "___" in source or str(lm.tokenizer.mask_token) in source:
        from anyorder.joints.text import read_pair

        tokens, a, b = read_pair(lm, source)
        return [Example(1, tokens, (a, b))]
    pairs = list(text_pairs(lm, source))
    if not pairs:
        raise AnyorderError("the text has no two adjacent tokens: give a longer one, or a file with a text a line")
    return pairs


def _is_file(source: str) -> bool:
    try:
        return Path(source).is_file()
    except OSError:  # a long text is no file name
        return False


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
