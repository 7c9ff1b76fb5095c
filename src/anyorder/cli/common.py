"""What every command shares: options read from their dataclasses, the model, JSON output, and a bar on stderr."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from anyorder.options import Options, check_text, option
from anyorder.stats import to_json
from anyorder.tasks.options import LoadOptions

if TYPE_CHECKING:
    from rich.progress import Progress

    from anyorder.tasks.lm import MaskedLM

app = typer.Typer(
    name="anyorder",
    help="Turn any masked language model into a language model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

F = TypeVar("F", bound=Callable[..., None])

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="Also draw the result into this file.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the output of an earlier run.")]


@dataclass(frozen=True)
class _Name(Options):
    """Which model; a class of its own, so that ``--help`` shows it first."""

    model: str | None = option(None, "A Hugging Face name or a folder; the bundled model if absent.", "-m")


@dataclass(frozen=True)
class ModelOptions(LoadOptions, _Name):
    """Which model, and how it is read; of :func:`anyorder.load`."""


def load_model(options: ModelOptions, quick: bool = False) -> MaskedLM:
    """The facade for ``--model``, imported only now; ``quick`` for commands that only ask (see ``models/lean.py``)."""
    import anyorder
    from anyorder.models.lean import lean

    # A checkpoint's own code may need what a quick start leaves out.
    with lean(quick and not options.trust_remote_code):
        return anyorder.load(options.model, **options.keywords)


def command(example: str, group: typer.Typer = app) -> Callable[[F], F]:
    """Register a function as a command; each of its parameters that is a dataclass of options becomes these options.

    The function gets the dataclass itself, so that there is nothing it could forget to pass on. Its help ends with
    ``example``.
    """

    def decorate(function: F) -> F:
        group.command(epilog=f"Example: {example}")(flat(function))
        return function

    return decorate


def flat(function: Callable[..., None]) -> Callable[..., None]:
    """``function(text, options: FillOptions)`` as ``function(text, *, top, method, ...)``, which typer can read."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(function).parameters.values():
        kind = hints[one.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[one.name] = kind
            types = get_type_hints(kind)
            parameters += [_parameter(field, types[field.name], getattr(kind, "PANEL", None)) for field in fields(kind)]
        else:
            parameters.append(one.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(function)
    def call(**given: Any) -> None:
        for value in given.values():
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, str):
                    check_text(part)
        ready = {
            name: kind(**{f.name: _value(given.pop(f.name), f) for f in fields(kind)}) for name, kind in groups.items()
        }
        function(**ready, **given)

    # The terminal breaks the lines: those of the source would leave every second one half empty.
    call.__doc__ = "\n\n".join(" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n"))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect documents
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


def _parameter(field: Field[Any], kind: Any, panel: str | None) -> inspect.Parameter:
    """One field as an option of typer's."""
    flags = list(field.metadata.get("flags", ()))
    if not any(flag.startswith("--") for flag in flags):
        flags.insert(0, "--" + field.name.replace("_", "-"))
    kind = field.metadata.get("kind") or kind
    default: Any = field.default
    if get_origin(kind) is tuple:  # typer's name for an option that may be repeated
        kind, default = list[get_args(kind)[0]], list(default) or None  # type: ignore[misc]  # built at run time
    annotation = Annotated[kind, typer.Option(*flags, help=field.metadata["help"], rich_help_panel=panel)]
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _value(given: Any, field: Field[Any]) -> Any:
    """What typer read, as the dataclass holds it: typer's word for an option that was not repeated is None."""
    return (field.default if given is None else tuple(given)) if isinstance(field.default, tuple) else given


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(_json_text(value))


def write_up(folder: Path, name: str, result: Any, markdown: str) -> None:
    """A result in a folder, as ``name``.json and ``name``.md."""
    (folder / f"{name}.json").write_text(_json_text(result) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(markdown + "\n", encoding="utf-8")


def _json_text(value: Any) -> str:
    return json.dumps(to_json(value), ensure_ascii=False, indent=2, allow_nan=False)


def show(*parts: Any) -> None:
    """Tables and sentences on stdout, as rich sets them."""
    from rich.console import Console

    console = Console()
    for part in parts:
        console.print(part)


def said_of(special_tokens: bool) -> str:
    """Which tokens a table is over."""
    return "in, as in the paper." if special_tokens else "left out (--special-tokens)."


def note(message: str) -> None:
    """A line on stderr about a result that is right, but not what it may be taken for."""
    print(f"anyorder: note: {message}", file=sys.stderr)


@contextmanager
def notes() -> Iterator[None]:
    """Each of our warnings as a note, once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for message in dict.fromkeys(str(one.message) for one in caught if one.category is UserWarning):
        note(message)


def bars(progress: Progress) -> Callable[[str, int, int], None]:
    """A callback (what, done, of how many) that gives each ``what`` a bar, as long as it is under way."""
    tasks: dict[str, Any] = {}

    def report(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = progress.add_task(what, total=total)
        progress.update(tasks[what], completed=done, visible=done < total)

    return report


@contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """A rich progress bar on stderr that vanishes when done; silent when ``quiet`` or not on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        yield bar
