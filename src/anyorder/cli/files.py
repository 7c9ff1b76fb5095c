"""Every text of a file, a window at a time, into a file that a stopped run continues to the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.cli.common import ModelOptions, load_model, progress
from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

WINDOW = 256  # texts answered and written together


def check_file_options(
    what: str, given: bool, file: str | None, out: Path | None, resume: bool, overwrite: bool
) -> None:
    """One text or a file of them, and what belongs to files only with a file; ``what`` is a command as an example."""
    if given == (file is not None):
        raise AnyorderError(f"give either a text or --file with texts: {what}")
    if file is None and (out is not None or resume or overwrite):
        raise AnyorderError("--out, --resume and --overwrite are for many texts: name their file with --file")
    if resume and out is None:
        raise AnyorderError("--resume continues a file: name it with --out")


def answer_file(
    file: str,
    model: ModelOptions,
    settings: dict[str, Any],
    answer: Callable[[MaskedLM, list[str], int], list[str]],
    *,
    doing: str,
    out: Path | None,
    resume: bool,
    overwrite: bool,
) -> None:
    """A line of JSON for every text; windows are a function of the input, so that resuming changes no byte.

    Args:
        file: Where the texts are; ``-`` is standard input.
        model: Which model answers.
        settings: All that decides the answers, besides the model.
        answer: (model, texts, number of the first from 1) -> their lines.
        doing: For the bar.
        out: Where the lines go; None is standard output.
        resume: Go on with ``out``.
        overwrite: Replace it.
    """
    from anyorder.files.journal import Results, windows
    from anyorder.files.reading import Source
    from anyorder.show.scores import same_json

    source = Source(file)
    # Read once before anything is written: a bad line at the end should not cost the work before it.
    total = None if file == "-" else sum(1 for _ in source)
    settings = json.loads(json.dumps({"dtype": model.dtype, **settings}))  # as they are read again from a note
    results = Results(out, settings, same_json)
    if not resume:
        results.check(overwrite)
    lm = load_model(model, quick=True)
    settings["model"] = lm.name
    texts = iter(source)
    if resume:
        results.resume(texts, WINDOW, total)
    with progress() as bar:
        task = bar.add_task(doing, total=total, completed=results.written)
        for window in windows(texts, WINDOW):
            results.write(answer(lm, window, results.written + 1))
            bar.update(task, completed=results.written)
    results.finish()
