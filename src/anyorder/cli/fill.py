"""`anyorder fill`: fill every blank of a text jointly."""

from __future__ import annotations

import math
from typing import Annotated

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
from anyorder.errors import choose

METHODS = ("beam", "sample", "joint")


def fill(
    text: Annotated[str, typer.Argument(help="A text with blanks: ___ one token, ___{3} three, ___{1-4} one to four.")],
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
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fill every blank of a text *jointly*; completions ranked by their joint log-probability.

    Example: anyorder fill "The ___ sat on the ___{1-3}." --top 3
    """
    choose(method, METHODS, "method")
    lm = load_model(model, allow_pickle, trust_remote_code)
    with progress() as bar:
        task = bar.add_task("filling", total=None)
        completions = lm.fill(
            text,
            top=top,
            method=method,
            order=order,
            beam=beam,
            samples=samples,
            tail=tail,
            seed=seed,
            whole_words=not any_pieces,
            special_tokens=special_tokens,
            allow_unknown=allow_unknown,
            progress=lambda what, done, of: bar.update(task, description=what, completed=done, total=of),
        )
    if as_json:
        print_json([c.to_dict() for c in completions])
        return
    lengths = any(c.length_log_prob is not None for c in completions)
    print(" log_prob     prob  " + ("p(length)  " if lengths else "") + "text")
    for c in completions:
        length = "" if c.length_log_prob is None else f"{100 * math.exp(c.length_log_prob):8.1f}%  "
        print(f"{c.log_prob:9.3f}  {100 * math.exp(c.log_prob):6.2f}%  {length}{c.text}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fill")(fill)
