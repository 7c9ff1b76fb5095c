"""The `anyorder` command: one file per subcommand. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from anyorder import __version__
from anyorder.cli import (
    certify,
    compare,
    compatibility,
    diagnose,
    evaluate,
    fill,
    finetune,
    generate,
    joint,
    lab,
    lm_eval,
    score,
    serve,
    train,
    translate,
)
from anyorder.errors import AnyorderError
from anyorder.show.printable import printable

app = typer.Typer(
    name="anyorder",
    help="Turn any masked language model into a language model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _part in (
    certify,
    compare,
    compatibility,
    diagnose,
    evaluate,
    fill,
    finetune,
    generate,
    joint,
    lab,
    lm_eval,
    score,
    serve,
    train,
    translate,
):
    _part.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"anyorder {__version__}")
        raise typer.Exit


@app.callback()
def anyorder(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Turn any masked language model into a language model."""


def main() -> None:
    """Run the command line; our own errors become one line on stderr and exit status 2."""
    # transformers' own bars and warnings would interleave with ours; a user's explicit setting wins.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # a full disk behind a pipe or a redirection shows only now
    except AnyorderError as error:
        _end(str(error), 2)
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except BrokenPipeError:
        _silence()  # the reader went away (`anyorder ... | head`): the convention is to stop without a word
        sys.exit(141)
    except OSError as error:
        if error.filename is None:
            _silence()
        where = f" {error.filename}" if error.filename else ""
        _end(f"cannot read or write{where} ({error.strerror or error}): check the place and its room", 1)


def _end(message: str, status: int) -> NoReturn:
    print(f"anyorder: {printable(message)}", file=sys.stderr)
    sys.exit(status)


def _silence() -> None:
    """Let nothing more be written to a standard output that fails, not even by the interpreter as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
