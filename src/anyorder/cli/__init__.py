"""The `anyorder` command: one file per subcommand. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from anyorder import __version__
from anyorder.cli.common import app
from anyorder.errors import AnyorderError
from anyorder.show.printable import printable

# Each adds itself to the command line as it is imported.
for _part in (
    "certify", "compare", "compatibility", "diagnose", "evaluate", "fill", "finetune", "generate", "joint", "lab",
    "lm_eval", "score", "serve", "train", "translate",
):  # fmt: skip
    import_module(f"anyorder.cli.{_part}")

# What click says of a command line that it cannot read; newer versions of typer carry a click of their own.
_Usage: Any = typer.BadParameter.__base__


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
    """Run the command line; what it refuses becomes one line on stderr and exit status 2."""
    # transformers' own bars and warnings would interleave with ours; a user's explicit setting wins.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        try:
            status = app(prog_name="anyorder", standalone_mode=False)
        finally:
            sys.stdout.flush()  # a full disk behind a pipe or a redirection shows only now
        if status:  # of typer.Exit
            sys.exit(status)
    except AnyorderError as error:
        _end(str(error), 2)
    except _Usage as error:
        _misused(error)
    except (KeyboardInterrupt, typer.Abort):
        _end("interrupted", 130)
    except BrokenPipeError:
        _silence()  # the reader went away (`anyorder ... | head`): the convention is to stop without a word
        sys.exit(141)
    except OSError as error:
        why = " ".join(str(error.strerror or error).split())
        if error.filename is not None:  # a place that was named
            _end(f"cannot read or write {error.filename} ({why}): check the path and the free space", 2)
        _silence()
        _end(f"cannot read or write ({why}): check the free space, and where the output goes", 1)


def _misused(error: Any) -> NoReturn:
    """One line for what click would draw a box around; a command without arguments has printed its help already."""
    said = " ".join(error.format_message().split()).rstrip(".")
    if not said:
        sys.exit(2)
    command = error.ctx.command_path if error.ctx is not None else "anyorder"
    _end(f"{said[0].lower()}{said[1:]}: see {command} --help", 2)


def _end(message: str, status: int) -> NoReturn:
    print(f"anyorder: {printable(message)}", file=sys.stderr)
    sys.exit(status)


def _silence() -> None:
    """Let nothing more be written to a standard output that fails, not even by the interpreter as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
