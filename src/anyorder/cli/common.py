"""What every command shares: the usual options, JSON output, and a progress bar on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

    from anyorder.tasks.lm import MaskedLM

T = TypeVar("T")

ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="A Hugging Face name or a folder; the bundled model if absent.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of every random choice.")]
PickleOption = Annotated[
    bool, typer.Option("--allow-pickle", help="Also read .bin checkpoints; only for files you trust.")
]
RemoteCodeOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the checkpoint; only if you trust it.")
]
SpecialOption = Annotated[
    bool, typer.Option("--special-tokens", help="Let a blank hold special tokens too, as in the paper.")
]
ReadingOption = Annotated[
    str,
    typer.Option(
        "--reading",
        help="How token-by-token methods (any-order, chain) read the model: ordered (each token once: fast, for models "
        "trained for it), full (the whole text for every token), ordered-untrained (insist), or auto: ordered if it "
        "was trained so.",
    ),
]


def load_model(
    name: str | None, allow_pickle: bool = False, trust_remote_code: bool = False, quick: bool = False
) -> MaskedLM:
    """The facade for ``--model``, imported only now; ``quick`` for commands that only ask (see ``models/lean.py``)."""
    import anyorder
    from anyorder.models.lean import lean

    # A checkpoint's own code may need what a quick start leaves out.
    with lean() if quick and not trust_remote_code else nullcontext():
        return anyorder.load(name, allow_pickle=allow_pickle, trust_remote_code=trust_remote_code)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


@contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """A rich progress bar on stderr that vanishes when done; silent when ``quiet`` or not on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        yield bar
