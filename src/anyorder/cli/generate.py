"""`anyorder generate`: text in any word order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import JsonOption, ModelOptions, command, load_model, note, notes, print_json, progress
from anyorder.cli.files import FileOptions
from anyorder.errors import AnyorderError, count
from anyorder.show.animation import check_animation_path, write_animation
from anyorder.show.printable import printable
from anyorder.show.recording import Recorder, headline
from anyorder.tasks.options import GenerateOptions

if TYPE_CHECKING:
    from anyorder.tasks.generate import Watch
    from anyorder.tasks.together import Generation, Plan


@command(
    'anyorder generate --begin "Tom is a cat." --end "They became friends." --length 60   or   '
    'anyorder generate --scatter "The quick brown fox jumps over the lazy dog" --length 80 --trace',
)
def generate(
    options: GenerateOptions,
    model: ModelOptions,
    files: FileOptions,
    text: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The same as --prompt.", show_default=False)
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every step as it happens (of the first text).")] = False,
    animate: Annotated[
        Path | None,
        typer.Option("--animate", help="Also write how the first text came about, as an .html page or a .gif."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Generate text in any word order, around any words that are given.

    With --file, one JSON object per line, {"text", "generations"}, in the order of the prompts; an empty line keeps
    its place, without generations. --out with --resume continues a run that was stopped, and --engine ray spreads the
    work over the workers of a cluster or of this machine: the output is the same, byte for byte.
    """
    if text is not None and options.prompt is not None:
        raise AnyorderError("two prompts: give the text as an argument or with --prompt")
    options = replace(options, prompt=options.prompt if text is None else text)
    if files.given:
        if options.prompt is not None or trace or animate is not None:
            raise AnyorderError("--prompt, --trace and --animate are for one text: leave them out, or --file")
        files.answer("generate", options, model)
        return
    check_animation_path(animate)
    lm = load_model(model, quick=True)
    from anyorder.tasks.generate import generations, plan

    with notes():
        task = plan(lm, **vars(options))
    if task.price is not None and not as_json:
        note(f"{task.steps} steps lose about {task.price:.1f} nats per text against one token per step")
    done: list[Generation] = []
    recorder = Recorder(*headline(lm.name, options)) if animate is not None else None
    try:
        with _watching(task, trace, as_json) as watch:
            for one in generations(task, watch if recorder is None else _both(watch, recorder.watch)):
                done.append(one)
    except KeyboardInterrupt:
        _print(done, as_json)
        print(f"anyorder: interrupted, {len(done)} of {count(options.samples, 'text')} finished", file=sys.stderr)
        raise typer.Exit(130) from None
    _print(done, as_json)
    if animate is not None and recorder is not None:
        write_animation(recorder.recording(task), animate)


def _both(first: Watch, second: Watch) -> Watch:
    """A watcher that tells two."""

    def watch(*step: Any) -> None:
        first(*step)
        second(*step)

    return watch


def _print(done: list[Generation], as_json: bool) -> None:
    if as_json:
        print_json([one.to_dict() for one in done])
        return
    for number, one in enumerate(done):
        if number:
            print()
        print(printable(one.text, keep="\n"))


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
    from anyorder.tasks.together import BATCH

    batches = -(-task.samples // BATCH)
    with progress() as bar:
        number = bar.add_task("generating", total=batches * task.steps)
        yield lambda *_: bar.advance(number)
