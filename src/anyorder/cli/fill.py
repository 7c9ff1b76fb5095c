"""`anyorder fill`: fill every blank of a text jointly."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    RemoteCodeOption,
    SeedOption,
    load_model,
    print_json,
    progress,
)
from anyorder.errors import AnyorderError, choose

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

METHODS = ("beam", "sample", "joint")
WINDOW = 256  # texts filled and written together


def fill(
    text: Annotated[
        str | None, typer.Argument(help="A text with blanks: ___ one token, ___{3} three, ___{1-4} one to four.")
    ] = None,
    top: Annotated[int, typer.Option("--top", "-n", help="How many completions to show.")] = 5,
    method: Annotated[
        str, typer.Option("--method", help="beam (n-best search), sample, or joint (two blanks, Arnold-Gokhale).")
    ] = "beam",
    order: Annotated[
        str,
        typer.Option(
            "--order",
            help="confidence, entropy, left-to-right, right-to-left, random, or given:2,1,3 (blanks counted from 1).",
        ),
    ] = "confidence",
    beam: Annotated[int, typer.Option("--beam", help="Width of the beam.")] = 16,
    samples: Annotated[int, typer.Option("--samples", help="Draws of --method sample.")] = 64,
    tail: Annotated[
        float | None,
        typer.Option("--tail", help="--method joint: ask only for rows that carry mass, until this much is left."),
    ] = None,
    seed: SeedOption = 0,
    any_pieces: Annotated[
        bool, typer.Option("--any-pieces", help="Allow word pieces where a blank stands as a word.")
    ] = False,
    special_tokens: Annotated[
        bool, typer.Option("--special-tokens", help="Allow special tokens, as fill-mask does.")
    ] = False,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept words the tokenizer cannot represent.")
    ] = False,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", help="Fill many texts, one per line (also .gz and .xz; - is standard input): JSON lines."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="With --file: write the JSON lines here.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped; needs --out.")] = False,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fill every blank of a text *jointly*; completions ranked by their joint log-probability.

    With --file, one JSON object per line, {"text", "completions"}, in the order of the input; an empty line stays one
    without completions. Texts share the model's batches, 256 at a time; --out with --resume continues a run that was
    stopped, and the file is byte for byte that of a run that was not.

    Example: anyorder fill "The ___ sat on the ___{1-3}." --top 3
    """
    choose(method, METHODS, "method")
    if (text is None) == (file is None):
        raise AnyorderError('give either a text or --file with texts: anyorder fill "The ___ sat."')
    if file is None and (out is not None or resume):
        raise AnyorderError("--out and --resume are for many texts: name their file with --file")
    if resume and out is None:
        raise AnyorderError("--resume continues a file: name it with --out")
    options: dict[str, Any] = {
        "top": top,
        "method": method,
        "order": order,
        "beam": beam,
        "samples": samples,
        "tail": tail,
        "seed": seed,
        "whole_words": not any_pieces,
        "special_tokens": special_tokens,
        "allow_unknown": allow_unknown,
    }
    if file is not None:
        _fill_file(file, out, resume, partial(load_model, model, allow_pickle, trust_remote_code, quick=True), options)
        return
    lm = load_model(model, allow_pickle, trust_remote_code, quick=True)
    with progress() as bar:
        task = bar.add_task("filling", total=None)
        completions = lm.fill(
            str(text),
            progress=lambda what, done, of: bar.update(task, description=what, completed=done, total=of),
            **options,
        )
    if as_json:
        print_json([c.to_dict() for c in completions])
        return
    lengths = any(c.length_log_prob is not None for c in completions)
    print(" log_prob     prob  " + ("p(length)  " if lengths else "") + "text")
    for c in completions:
        length = "" if c.length_log_prob is None else f"{100 * math.exp(c.length_log_prob):8.1f}%  "
        print(f"{c.log_prob:9.3f}  {100 * c.prob:6.2f}%  {length}{c.text}")


def _fill_file(
    file: str, out: Path | None, resume: bool, load: Callable[[], MaskedLM], options: dict[str, Any]
) -> None:
    """Every text of a file, a window at a time; windows are a function of the input, so resuming changes no byte."""
    from anyorder.files.journal import Results, windows
    from anyorder.files.reading import Source
    from anyorder.show.completions import to_json
    from anyorder.show.scores import same_json
    from anyorder.tasks.fill import fill as fill_texts

    source = Source(file)
    # Read once before anything is written: a bad line at the end should not cost the work before it.
    total = None if file == "-" else sum(1 for _ in source)
    lm = load()
    results = Results(out, {"model": lm.name, **options}, same_json)
    texts = iter(source)
    if resume:
        results.resume(texts, WINDOW, total)
    else:
        results.check()
    with progress() as bar:
        task = bar.add_task("filling", total=total, completed=results.written)
        for window in windows(texts, WINDOW):
            found = fill_texts(lm, window, first=results.written + 1, **options)
            results.write([to_json(text, best) for text, best in zip(window, found, strict=True)])
            bar.update(task, completed=results.written)
    results.finish()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fill")(fill)
