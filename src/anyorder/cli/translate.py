"""`anyorder translate`: the target of a source, with a model trained on pairs."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOptions,
    OverwriteOption,
    ResumeOption,
    command,
    load_model,
    print_json,
)
from anyorder.cli.files import answer_file, check_file_options
from anyorder.errors import AnyorderError
from anyorder.options import whole_numbers
from anyorder.show.printable import printable
from anyorder.tasks.options import TranslateOptions

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM
    from anyorder.tasks.translate import Translation

_EPILOG = 'Example: anyorder translate "Im Fußball geht alles sehr schnell." --model MODEL --steps 1,2,4,8 --trace'


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, epilog=_EPILOG)(translate)


def translate(
    options: TranslateOptions,
    model: ModelOptions,
    text: Annotated[str | None, typer.Argument(help="The source.")] = None,
    file: Annotated[
        str | None, typer.Option("--file", help="Translate every text of a file: one per line, or .jsonl; - is stdin.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="With --file: write here, JSON lines.")] = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Write the target of a source: all its words at once, refined in a few steps, or one by one in any order.

    For models trained on pairs (data.columns in a recipe). --steps may name several numbers, 1,2,4,8: a target for
    each. With --file, one JSON object per line, in the order of the input; an empty line stays one. --out with
    --resume continues a run that was stopped, and the file is byte for byte that of a run that was not.
    """
    check_file_options('anyorder translate "Guten Tag." --model MODEL', text is not None, file, out, resume, overwrite)
    several = whole_numbers(options.steps, "steps") if options.steps is not None else [None]
    if file is not None:
        if len(several) > 1:
            raise AnyorderError("a file is translated with one number of steps: give one, such as --steps 4")
        answer_file(
            file,
            model,
            asdict(options),
            partial(_lines, options),
            doing="translating",
            out=out,
            resume=resume,
            overwrite=overwrite,
        )
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


def _lines(options: TranslateOptions, lm: MaskedLM, texts: list[str], first: int) -> list[str]:
    """The targets of a window of a file as lines of JSON."""
    from anyorder.show.translations import to_json
    from anyorder.tasks.translate import translate as translations

    return [to_json(one) for one in translations(lm, texts, options, first)]


def _print(one: Translation, steps: int | None) -> None:
    for number, state in enumerate(one.states):
        print(f"{number:4}  {printable(state)}")
    print(("" if steps is None else f"{steps:4}  ") + printable(one.text))
    for other in one.others:
        print(("" if steps is None else "      ") + f"  or  {printable(other)}")
