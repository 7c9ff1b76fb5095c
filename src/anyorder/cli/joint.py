"""`anyorder joint`: the distribution over two blanks of a text, by five constructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOptions,
    PlotOption,
    command,
    load_model,
    print_json,
    progress,
    said_of,
    show,
)
from anyorder.show.figure import check_plot_path
from anyorder.show.printable import printable, table
from anyorder.tasks.options import JointsOptions

if TYPE_CHECKING:
    from anyorder.tasks.joint import TextJoint


@command('anyorder joint "The ___ ___ at the casino" --method ag --plot heat.png')
def joint(
    text: Annotated[str, typer.Argument(help="A text with two blanks: ___ or the model's mask token.")],
    options: JointsOptions,
    model: ModelOptions,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """The joint distribution over two blanks anywhere in a text.

    By default over all tokens that can be text, by all five constructions of Torroba Hennigen & Kim (2023): the product
    of the model's answers (mlm), two Markov random fields (mrf, mrf-logit), Hammersley–Clifford–Besag (hcb) and
    Arnold–Gokhale (ag), whose conditionals are nearest to the model's.
    """
    check_plot_path(plot)
    lm = load_model(model, quick=True)
    from anyorder.tasks.joint import described, text_joints

    with progress(quiet=json) as bar:
        task = bar.add_task("asking the model", total=2 * lm.conditionals.vocab_size)
        joints = text_joints(lm, text, options.methods, options, report=lambda rows: bar.advance(task, rows))
    if plot is not None:
        from anyorder.show.joint_plot import heat_map

        heat_map(joints, plot, title=text)
    if json:
        print_json(described(lm, text, joints, options))
    else:
        _print(joints, options.top)
        print("Special tokens: " + said_of(options.special_tokens))
        if plot is not None:
            print(f"heat map: {plot}")


def _print(joints: dict[str, TextJoint], top: int) -> None:
    from rich.text import Text

    for found in joints.values():
        out = found.to_dict(top)
        shown = table(("first", "second", "probability", "first alone", "second alone"), (), title=found.heading)
        shown.title_style = "bold"
        rows = zip(out["pairs"], _padded(out["marginals"]["a"], top), _padded(out["marginals"]["b"], top), strict=False)
        for pair, a, b in rows:
            # Text, so that a token like [MASK] is not read as markup
            cells = (printable(pair["a"]), printable(pair["b"]), f"{pair['prob']:.4f}", a, b)
            shown.add_row(*map(Text, cells))
        show(shown, "")


def _padded(marginal: list[dict[str, object]], n: int) -> list[str]:
    cells = [f"{m['prob']:.3f} {printable(str(m['token']))}" for m in marginal]
    return cells + [""] * (n - len(cells))
