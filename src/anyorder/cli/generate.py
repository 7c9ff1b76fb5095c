"""`anyorder generate`: text in any word order."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    ReadingOption,
    RemoteCodeOption,
    SeedOption,
    load_model,
    print_json,
    progress,
)
from anyorder.tasks.samplers import SAMPLERS

if TYPE_CHECKING:
    from anyorder.tasks.generate import Generation, Plan


def generate(
    length: Annotated[
        int | None, typer.Option("--length", "-l", help="Tokens of the text, given ones included; 64 if absent.")
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", "-p", help="Words to keep; ... where text is generated, ___ for one token."),
    ] = None,
    begin: Annotated[str | None, typer.Option("--begin", help="The first words of the text.")] = None,
    end: Annotated[str | None, typer.Option("--end", help="The last words of the text.")] = None,
    scatter: Annotated[str | None, typer.Option("--scatter", help="Words spread over the text, in order.")] = None,
    acrostic: Annotated[str | None, typer.Option("--acrostic", help="A word whose letters begin the lines.")] = None,
    order: Annotated[
        str | None,
        typer.Option(
            "--order",
            help="left-to-right, right-to-left, random, confidence, entropy, or given:3,7,1,... (tokens to generate, "
            "counted from 1).",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", "-k", help="Steps of parallel and refine (at most one a token), or of a chain."),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            "--sampler",
            "-s",
            help=f"{', '.join(SAMPLERS)}; without it the first of any-order, parallel and refine "
            "that has the options given.",
        ),
    ] = None,
    block: Annotated[
        int | None, typer.Option("--block", help="Tokens resampled together by gibbs and adaptive.")
    ] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="gibbs inside a block: parallel (the default) or sequential.")
    ] = None,
    influence: Annotated[
        str | None,
        typer.Option("--influence", help="What adaptive measures dependence by: tokens (the default) or attention."),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="parallel: draw neighbours from their joint, not as if independent.")
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option("--schedule", help="How many tokens parallel commits by step t: linear, or cosine (few first)."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="parallel commits tokens while their entropies sum to less than this (nats)."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", help="What refine starts from: masks, random tokens, or given (--draft).")
    ] = None,
    draft: Annotated[
        str | None, typer.Option("--draft", help="A text to start from; all of it may change (refine and the chains).")
    ] = None,
    reading: ReadingOption = "auto",
    temperature: Annotated[float, typer.Option("--temperature", help="Below 1 sharpens, above 1 flattens.")] = 1.0,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Draw among the k likeliest tokens; 1 is greedy.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Draw among the likeliest that hold this mass.")
    ] = None,
    min_p: Annotated[float | None, typer.Option("--min-p", help="Least probability, as a share of the best.")] = None,
    typical: Annotated[
        float | None, typer.Option("--typical", help="Draw among the most typical of this mass.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", help="How many texts.")] = 1,
    seed: SeedOption = 0,
    trace: Annotated[bool, typer.Option("--trace", help="Show every step as it happens (of the first text).")] = False,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept words the tokenizer cannot represent.")
    ] = False,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Generate text in any word order, around any words that are given.

    Example: anyorder generate --begin "Tom is a cat." --end "They became friends." --length 60 --order left-to-right

    Example: anyorder generate --scatter "The quick brown fox jumps over the lazy dog" --length 80 --trace
    """
    from anyorder.tasks.samplers import options_of

    # Refused before a model is loaded.
    of_sampler: dict[str, Any] = {
        "order": order, "steps": steps, "block": block, "mode": mode, "influence": influence, "pairs": pairs,
        "schedule": schedule, "epsilon": epsilon, "start": start, "draft": draft,
    }  # fmt: skip
    options_of(sampler, of_sampler)
    lm = load_model(model, allow_pickle, trust_remote_code, quick=True)
    from anyorder.tasks.generate import generations, plan

    with _notes():
        task = plan(
            lm,
            prompt,
            length=length,
            begin=begin,
            end=end,
            scatter=scatter,
            acrostic=acrostic,
            sampler=sampler,
            **of_sampler,
            reading=reading,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            typical=typical,
            samples=samples,
            seed=seed,
            allow_unknown=allow_unknown,
        )
    done: list[Generation] = []
    try:
        with _watching(task, trace, as_json) as watch:
            for one in generations(task, watch):
                done.append(one)
    except KeyboardInterrupt:
        _print(done, as_json)
        print(f"anyorder: interrupted, {len(done)} of {samples} texts finished", file=sys.stderr)
        raise typer.Exit(130) from None
    _print(done, as_json)


def _print(done: list[Generation], as_json: bool) -> None:
    if as_json:
        print_json([one.to_dict() for one in done])
        return
    for number, one in enumerate(done):
        if number:
            print()
        print(one.text)


@contextmanager
def _watching(task: Plan, trace: bool, as_json: bool) -> Iterator[Any]:
    """The watcher of every step: the trace if it is wanted, else a progress bar."""
    if trace:
        from rich.console import Console

        from anyorder.show.trace import Tracer

        # JSON keeps stdout to itself.
        with Tracer(Console(stderr=as_json, highlight=False)) as tracer:
            yield tracer.watch
        return
    from anyorder.tasks.generate import BATCH

    batches = -(-task.samples // BATCH)
    with progress() as bar:
        number = bar.add_task("generating", total=batches * task.steps)
        yield lambda *_: bar.advance(number)


@contextmanager
def _notes() -> Iterator[None]:
    """Our warnings as one line each on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        print(f"anyorder: note: {warning.message}", file=sys.stderr)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("generate")(generate)
