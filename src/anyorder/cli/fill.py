"""`anyorder fill`: fill every blank of a text jointly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import JsonOption, ModelOptions, command, load_model, print_json, progress
from anyorder.cli.files import FileOptions
from anyorder.errors import AnyorderError
from anyorder.show.printable import printable
from anyorder.tasks.options import FillOptions

if TYPE_CHECKING:
    from anyorder.tasks.fill import Completion


@command('anyorder fill "The ___ sat on the ___{1-3}." --top 3')
def fill(
    options: FillOptions,
    model: ModelOptions,
    files: FileOptions,
    text: Annotated[
        str | None, typer.Argument(help="A text with blanks: ___ one token, ___{3} three, ___{1-4} one to four.")
    ] = None,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone", help="Also show the likeliest words of each blank on its own, with the other blanks masked."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Fill every blank of a text *jointly*; completions ranked by their joint log-probability.

    With --file, one JSON object per line, {"text", "completions"}, in the order of the input; an empty line keeps its
    place, without completions. Texts share the model's batches, 256 at a time. --out with --resume continues a run that
    was stopped, and --engine ray spreads the work over the workers of a cluster or of this machine: the output is the
    same, byte for byte.
    """
    if not files.is_file(text, 'anyorder fill "The ___ sat."'):
        _fill_text(str(text), options, model, alone, json)
    elif alone:
        raise AnyorderError("--alone is for one text: leave out --file")
    else:
        files.answer("fill", options, model)


def _fill_text(text: str, options: FillOptions, model: ModelOptions, alone: bool, json: bool) -> None:
    from anyorder.tasks.alone import alone as each_alone
    from anyorder.tasks.fill import fill as fill_text

    lm = load_model(model, quick=True)
    single = each_alone(lm, text, options) if alone else None
    with progress() as bar:
        task = bar.add_task("filling", total=None)
        completions = fill_text(
            lm,
            text,
            options,
            progress=lambda what, done, of: bar.update(task, description=what, completed=done, total=of),
        )
    if json:
        found = [c.to_dict() for c in completions]
        print_json(found if single is None else {"jointly": found, "alone": single})
        return
    if single is not None:
        _print_alone(single)
    _print(completions)


def _print(completions: list[Completion]) -> None:
    lengths = any(c.length_log_prob is not None for c in completions)
    print(" log_prob     prob  " + ("p(length)  " if lengths else "") + "text")
    for c in completions:
        length = "" if c.length_log_prob is None else f"{100 * math.exp(c.length_log_prob):8.1f}%  "
        print(f"{c.log_prob:9.3f}  {100 * math.exp(c.log_prob):6.2f}%  {length}{printable(c.text)}")


def _print_alone(single: dict[str, Any]) -> None:
    print("Each blank alone:")
    for number, best in enumerate(single["blanks"], 1):
        print(f"{number:3}  " + "  ".join(f"{printable(b['token'])} {100 * b['prob']:.1f}%" for b in best))
    print(f"     {printable(single['text'])}\n\nAll blanks jointly:")
