"""`anyorder score`: how probable is each text?"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from anyorder.cli.common import JsonOption, ModelOptions, command
from anyorder.cli.files import LinesOptions, Output, answer_texts, outputs_of
from anyorder.errors import AnyorderError
from anyorder.tasks.options import ScoreOptions


@command("anyorder score 'The cat sat on the mat.'   or   anyorder score texts.txt --json")
def score(
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...|FILE...",
            help="Texts in quotes; or files, a text per line, .tsv, .jsonl or .parquet, also .gz and .xz; - is stdin.",
        ),
    ],
    options: ScoreOptions,
    model: ModelOptions,
    files: LinesOptions,
    json: JsonOption = False,
) -> None:
    """Score texts: log-probabilities in nats, one result per line, in the order of the input.

    A blank line is kept as a text of 0 tokens. A text longer than the model can read is scored in windows, each for new
    tokens given those before them. Results appear 256 at a time. --out with --resume continues a run that was stopped,
    and --engine ray spreads the work over the workers of a cluster or of this machine: the output is the same, byte for
    byte.
    """
    outputs = _outputs(texts, files)  # first, since it is quick to find a mistake there
    from anyorder.show.scores import Tsv

    tsv = Tsv(options) if not json and (files.out is None or files.out.endswith(".tsv")) else None
    answer_texts("score", options, model, files, outputs, tsv)
    if tsv and files.out is None:
        print(f"log_prob: {options.meaning}", file=sys.stderr)


def _outputs(given: list[str], files: LinesOptions) -> list[Output]:
    """The texts that are given themselves, or those of the files that are given."""
    from anyorder.files.reading import is_file_name

    named = [one for one in given if is_file_name(one)]
    if not named and files.column is None and files.format is None:
        return [Output(files.path, given, len(given))]
    if named and len(named) < len(given):
        other = next(one for one in given if one not in named)
        raise AnyorderError(f"{named[0]!r} is a file and {other!r} is not: give files, or texts in quotes")
    return outputs_of(given, files)
