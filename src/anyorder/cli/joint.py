"""`anyorder joint`: the distribution over two blanks of a text, by five constructions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    RemoteCodeOption,
    SpecialOption,
    load_model,
    print_json,
    progress,
)
from anyorder.errors import AnyorderError, choose
from anyorder.show.figure import check_plot_path

if TYPE_CHECKING:
    from anyorder.tasks.joint import TextJoint

_METHODS = ("mlm", "mrf", "mrf-logit", "hcb", "ag")


def joint(
    text: Annotated[str, typer.Argument(help="A text with two blanks: ___ or the model's mask token.")],
    method: Annotated[str, typer.Option(help="mlm, mrf, mrf-logit, hcb, ag or all.")] = "all",
    top: Annotated[int, typer.Option(min=1, help="How many pairs to show.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Write a heat map of the top tokens to this file.")] = None,
    tail: Annotated[
        float | None,
        typer.Option(help="Ask only for rows that carry mass; the mass outside is known to this precision (ag, mlm)."),
    ] = None,
    special_tokens: SpecialOption = False,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Let words the tokenizer cannot represent stand.")
    ] = False,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
    json: JsonOption = False,
) -> None:
    """The joint distribution over two blanks anywhere in a text.

    By default over all tokens that can be text, by all five constructions of Torroba Hennigen & Kim (2023): the product
    of the model's answers (mlm), two Markov random fields (mrf, mrf-logit), Hammersley–Clifford–Besag (hcb) and
    Arnold–Gokhale (ag), whose conditionals are nearest to the model's.
    """
    if tail is not None and not 0 < tail < 1:
        raise AnyorderError(f"--tail is a probability between 0 and 1, not {tail}: try 1e-3")
    every = list(_METHODS) if tail is None else ["mlm", "ag"]
    names = every if choose(method, [*_METHODS, "all"], "method") == "all" else [method]
    check_plot_path(plot)
    lm = load_model(model, allow_pickle, trust_remote_code, quick=True)
    from anyorder.tasks.joint import text_joints

    with progress(quiet=json) as bar:
        task = bar.add_task("asking the model", total=2 * lm.conditionals.vocab_size)
        joints = text_joints(
            lm,
            text,
            names,
            tail=tail,
            special_tokens=special_tokens,
            allow_unknown=allow_unknown,
            report=lambda rows: bar.advance(task, rows),
        )
    if plot is not None:
        from anyorder.show.joint_plot import heat_map

        heat_map(joints, plot, title=text)
    if json:
        methods = {name: found.to_dict(top) for name, found in joints.items()}
        said = {"text": text, "model": lm.name, "vocab_size": lm.conditionals.vocab_size}
        print_json(said | {"special_tokens": special_tokens, "methods": methods})
    else:
        _print(joints, top)
        print("Special tokens: " + ("in, as in the paper." if special_tokens else "left out (--special-tokens)."))
        if plot is not None:
            print(f"heat map: {plot}")


def _print(joints: dict[str, TextJoint], top: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for found in joints.values():
        out = found.to_dict(top)
        table = Table(title=found.heading, title_justify="left", title_style="bold", box=None, padding=(0, 2))
        for column in ("first", "second", "probability", "", "first alone", "second alone"):
            table.add_column(column, justify="right" if column == "probability" else "left")
        rows = zip(out["pairs"], _padded(out["marginals"]["a"], top), _padded(out["marginals"]["b"], top), strict=False)
        for pair, a, b in rows:
            # Text, so that a token like [MASK] is not read as markup
            table.add_row(Text(pair["a"]), Text(pair["b"]), f"{pair['prob']:.4f}", "", Text(a), Text(b))
        console.print(table)
        console.print()


def _padded(marginal: list[dict[str, object]], n: int) -> list[str]:
    cells = [f"{m['token']} {m['prob']:.3f}" for m in marginal]
    return cells + [""] * (n - len(cells))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog='Example: anyorder joint "The ___ ___ at the casino" --method ag --plot heat.png')(joint)
