"""`anyorder translate`: the target of a source, with a model trained on pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import JsonOption, ModelOptions, command, load_model, print_json
from anyorder.cli.files import FileOptions
from anyorder.errors import AnyorderError
from anyorder.options import whole_numbers
from anyorder.show.printable import printable
from anyorder.tasks.options import TranslateOptions

if TYPE_CHECKING:
    from anyorder.tasks.translate import Translation


@command('anyorder translate "Im Fußball geht alles sehr schnell." --model MODEL --steps 1,2,4,8 --trace')
def translate(
    options: TranslateOptions,
    model: ModelOptions,
    files: FileOptions,
    text: Annotated[str | None, typer.Argument(help="The text to translate.")] = None,
    json: JsonOption = False,
) -> None:
    """Translate: write all words of the target at once and refine them in a few steps, or one by one in any order.

    For models trained on pairs (data.columns in a recipe); none comes with the package. --steps may name several
    numbers, 1,2,4,8: a target for each. With --file, one JSON object per line, in the order of the input; an empty line
    keeps its place. --out with --resume continues a run that was stopped, and --engine ray spreads the work over the
    workers of a cluster or of this machine: the output is the same, byte for byte.
    """
    several = whole_numbers(options.steps, "steps") if options.steps is not None else [None]
    if files.is_file(text, 'anyorder translate "Guten Tag." --model MODEL'):
        if len(several) > 1:
            raise AnyorderError("a file is translated with one number of steps: give one, such as --steps 4")
        files.answer("translate", options, model)
        return
    from anyorder.tasks.translate import translate as translations

    lm = load_model(model, quick=True)
    found = [translations(lm, str(text), replace(options, steps=steps))[0] for steps in several]
    if json:
        rows = [{"steps": steps, **one.to_dict()} for steps, one in zip(several, found, strict=True)]
        print_json(rows if len(rows) > 1 else rows[0])
        return
    for steps, one in zip(several, found, strict=True):
        _print(one, steps if len(several) > 1 else None)


def _print(one: Translation, steps: int | None) -> None:
    for number, state in enumerate(one.states):
        print(f"{number:4}  {printable(state)}")
    print(("" if steps is None else f"{steps:4}  ") + printable(one.text))
    for other in one.others:
        print(("" if steps is None else "      ") + f"  or  {printable(other)}")
