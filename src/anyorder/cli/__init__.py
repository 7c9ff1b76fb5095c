"""The `anyorder` command: one file a subcommand. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys

import typer

from anyorder.cli import (
    certify,
    compare,
    compatibility,
    diagnose,
    evaluate,
    fill,
    generate,
    joint,
    lab,
    lm_eval,
    score,
    train,
)
from anyorder.errors import AnyorderError

app = typer.Typer(
    name="anyorder",
    help="Turn any masked language model into a language model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
certify.register(app)
compare.register(app)
compatibility.register(app)
diagnose.register(app)
evaluate.register(app)
fill.register(app)
generate.register(app)
joint.register(app)
lab.register(app)
lm_eval.register(app)
score.register(app)
train.register(app)


def main() -> None:
    """Run the command line; our own errors become one line on stderr and exit status 2."""
    # transformers' own bars and warnings would interleave with ours; a user's explicit setting wins.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        app()
    except AnyorderError as error:
        print(f"anyorder: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("anyorder: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader went away (`anyorder ... | head`): the convention is to stop without a word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
