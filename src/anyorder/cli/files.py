"""Every text of some files, a window at a time, into files that a stopped run continues to the same bytes.

Windows are a function of the input and answers a function of their window, so that neither resuming nor the number of
workers changes a byte: an engine only decides where windows are answered, and gives the answers in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from anyorder.cli.common import ModelOptions, load_model, note, notes, progress
from anyorder.errors import AnyorderError, count
from anyorder.options import Options, option

if TYPE_CHECKING:
    from anyorder.files.journal import Results
    from anyorder.show.answers import Answers
    from anyorder.show.scores import Tsv
    from anyorder.tasks.lm import MaskedLM

WINDOW = 256  # texts answered and written together


@dataclass(frozen=True)
class LinesOptions(Options):
    """How files of texts are read, answered and written."""

    PANEL: ClassVar[str] = "Files"
    NOT_WRITTEN: ClassVar[tuple[str, ...]] = (".csv", ".xlsx")  # names that promise what is not written

    column: str | None = option(
        None, "Where the texts are: a JSONL field, Parquet or TSV column (text if absent); a number if no header."
    )
    format: str | None = option(None, "lines, tsv, jsonl or parquet; by the file's name if absent.")
    out: str | None = option(
        None, "Write here; the name decides: .jsonl, .parquet, .txt (.tsv for scores); folder/: a file for each input."
    )
    resume: bool = option(False, "Continue a run that was stopped.")
    overwrite: bool = option(False, "Replace the output of an earlier run.")
    engine: str = option(
        "plain", "plain: in this process; ray: on workers of a cluster, with the same output.", choices=("plain", "ray")
    )
    address: str | None = option(None, "ray: the cluster, auto or HOST:PORT; if absent Ray starts on this machine.")
    workers: int | None = option(None, "ray: how many, each with a model; if absent one per GPU, or CPU.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine != "ray" and (self.address is not None or self.workers is not None):
            raise AnyorderError("--address and --workers are for a cluster: add --engine ray")
        if self.resume and self.out is None:
            raise AnyorderError("--resume continues a file: name it with --out")
        if self.path is not None and self.path.suffix in self.NOT_WRITTEN:
            raise AnyorderError(f"{self.out} would hold JSON lines: name the output .jsonl, or .parquet for a table")

    @property
    def path(self) -> Path | None:
        """The file to write; None is standard output."""
        return None if self.out is None else Path(self.out)


@dataclass(frozen=True)
class _Input(Options):
    """The file; a class of its own, so that ``--help`` shows it first."""

    file: str | None = option(
        None,
        "Answer every text of a file: one per line, .tsv, .jsonl or .parquet; 'texts/*.txt' in quotes are several; - "
        "is stdin.",
    )


@dataclass(frozen=True)
class FileOptions(LinesOptions, _Input):
    """The same for commands that take one text, or a file of them with ``--file``."""

    NOT_WRITTEN: ClassVar[tuple[str, ...]] = (*LinesOptions.NOT_WRITTEN, ".tsv")

    out: str | None = option(
        None, "With --file: write here; the name decides: .jsonl, .parquet, .txt; folder/: a file for each input."
    )

    @property
    def given(self) -> bool:
        """Whether there is a file; what belongs to files is refused without one."""
        if self.file is None and self != FileOptions():
            raise AnyorderError(
                "--out, --resume, --engine and the like are for many texts: name their file with --file"
            )
        return self.file is not None

    def is_file(self, text: str | None, example: str) -> bool:
        """Whether a file is given rather than a text: one of them must be."""
        if (text is None) == (self.file is None):
            raise AnyorderError(f"give either a text or --file with texts: {example}")
        return self.given

    def answer(self, task: str, options: Options, model: ModelOptions) -> None:
        """Answer every text of the file; see :func:`answer_texts`."""
        answer_texts(task, options, model, self, outputs_of([str(self.file)], self))


@dataclass(frozen=True)
class Output:
    """A file to write, and the texts it answers; None is standard output."""

    path: Path | None
    texts: Iterable[str]
    total: int | None  # how many, if known


@dataclass(frozen=True)
class Window:
    """Consecutive texts of one output."""

    output: int
    texts: list[str]
    first: int  # the number of the first, from 1


class Engine(Protocol):
    """What answers windows."""

    @property
    def model(self) -> str:
        """Its name."""
        ...

    def answers(self, windows: Iterable[Window]) -> Iterator[tuple[Window, Answers]]:
        """Every window with its answers, in the order of the windows."""
        ...


@dataclass(frozen=True)
class Here:
    """The engine in this process."""

    lm: MaskedLM
    answer: Callable[[MaskedLM, Window], Answers]

    @property
    def model(self) -> str:
        """Its name."""
        return self.lm.name

    def answers(self, windows: Iterable[Window]) -> Iterator[tuple[Window, Answers]]:
        """One window after the other."""
        for window in windows:
            yield window, self.answer(self.lm, window)


def outputs_of(names: Sequence[str], files: LinesOptions) -> list[Output]:
    """What is to be written: one file of all texts, or in a folder a file for each input, by its name."""
    from anyorder.files.reading import Source, expand

    names = expand(names)
    sources = [Source(name, files.column, files.format) for name in names]
    # Read once before anything is written: a bad line at the end should not cost the work before it.
    totals = [None if name == "-" else sum(1 for _ in source) for name, source in zip(names, sources, strict=True)]
    if files.out is None or not (files.out.endswith("/") or Path(files.out).is_dir()):
        _refuse_input(files.path, names)
        known = [total for total in totals if total is not None]
        return [Output(files.path, chain.from_iterable(sources), sum(known) if len(known) == len(totals) else None)]
    stems = [Path(name).name.split(".")[0] for name in names]
    twice = next((stem for stem in stems if stems.count(stem) > 1), None)
    if twice is not None:
        raise AnyorderError(f"two inputs are called {twice!r}: write them to different folders")
    folder = Path(files.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnyorderError(f"cannot make the folder {folder} ({error.strerror}): choose another --out") from None
    kinds = [".parquet" if name.endswith(".parquet") else ".jsonl" for name in names]
    paths = [folder / (stem + kind) for stem, kind in zip(stems, kinds, strict=True)]
    for path in paths:
        _refuse_input(path, names)
    return [Output(*one) for one in zip(paths, sources, totals, strict=True)]


def _refuse_input(path: Path | None, names: Sequence[str]) -> None:
    """Texts are read while their answers are written: a file cannot be both."""
    if path is not None and path.is_file() and any(name != "-" and path.samefile(name) for name in names):
        raise AnyorderError(f"{path} holds the texts themselves: choose another --out")


def answer_texts(
    task: str,
    options: Options,
    model: ModelOptions,
    files: LinesOptions,
    outputs: Sequence[Output],
    tsv: Tsv | None = None,
) -> None:
    """Answer every text of every output.

    Args:
        task: One of :data:`anyorder.show.answers.ANSWERING`.
        options: Of the task.
        model: Which model answers.
        files: How.
        outputs: What is written, from :func:`outputs_of`.
        tsv: The form of the lines, if not JSON.
    """
    from anyorder.files.disk import only_writer
    from anyorder.files.journal import Results
    from anyorder.show.answers import answering, form_of

    said = asdict(cast("Any", options))
    settings = {"dtype": model.dtype, **said, "column": files.column, "format": "tsv" if tsv else "jsonl"}
    settings = json.loads(json.dumps(settings))  # as they are read again from a note
    results = [
        Results(one.path, settings, tsv.same, tsv.header)
        if tsv
        else Results(one.path, settings, form=form_of(task, one.path))
        for one in outputs
    ]
    if not files.resume:
        for one in results:
            one.check(files.overwrite)
    totals = [one.total for one in outputs]
    long = done = 0
    with ExitStack() as alone, progress() as bar, notes():
        for output in outputs:
            alone.enter_context(only_writer(output.path))
        number = bar.add_task(answering(task).doing, total=None if None in totals else sum(one or 0 for one in totals))

        def tell(more: int = 0) -> None:
            bar.update(number, completed=sum(one.written for one in results) + more)

        with _engine(task, options, model, files, tsv, tell) as engine:
            settings["model"] = engine.model
            rest = [iter(one.texts) for one in outputs]
            for one, texts, total in zip(results, rest, totals, strict=True):
                if files.resume:
                    one.resume(texts, WINDOW, total)
                    if total and one.written == total:
                        note(f"{one.result} was complete and stays as it is; --overwrite would write it anew")
                else:
                    one.begin()
            for window, answers in engine.answers(_windows(results, rest)):
                for one in results[done : window.output]:  # answers are in order: nothing more comes for these
                    one.finish()
                done = window.output
                results[done].write(answers.lines)
                long += answers.long
                tell()
        for one in results[done:]:
            one.finish()
    if long:
        verb = "was" if long == 1 else "were"
        note(f"{count(long, 'text')} {verb} longer than the model and {verb} read in windows")


def _windows(results: Sequence[Results], rest: Sequence[Iterator[str]]) -> Iterator[Window]:
    """What remains of every output. An engine may take windows ahead of what is written."""
    from anyorder.files.journal import windows

    for output, texts in enumerate(rest):
        first = results[output].written + 1
        for window in windows(texts, WINDOW):
            yield Window(output, window, first)
            first += len(window)


@contextmanager
def _engine(
    task: str, options: Options, model: ModelOptions, files: LinesOptions, tsv: Tsv | None, tell: Callable[[int], None]
) -> Iterator[Engine]:
    """The engine that was asked for, ready to work."""
    from anyorder.show.answers import answering

    if files.engine == "ray":
        from anyorder.integrations.ray import Job, pool

        with pool(Job(task, options, model.model, model, tsv is not None), files.address, files.workers) as cluster:
            yield cluster
        return

    def answer(lm: MaskedLM, window: Window) -> Answers:
        return answering(task).answer(lm, window.texts, options, window.first, tsv is not None, tell)

    yield Here(load_model(model, quick=True), answer)
