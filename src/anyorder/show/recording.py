"""What a generation looked like, step by step, as plain data: what animations and the page are drawn from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from anyorder.stats import Record
from anyorder.tasks.options import SAID, GenerateOptions
from anyorder.tasks.samplers import options_of

if TYPE_CHECKING:
    from anyorder.tasks.together import Plan
    from anyorder.types import Info

_GIVEN = ("prompt", "begin", "end", "scatter", "acrostic", "draft")  # what a text is written around
_CUTS = ("top_k", "top_p", "min_p", "typical")  # which tokens it is drawn among


@dataclass(frozen=True)
class Drawn:
    """One token at one position.

    Attributes:
        position: counted from 0, over the positions of the text without the special tokens around it.
        text: as it reads, without marks; None where it was masked again.
        glue: where no space is written beside it, see :meth:`anyorder.text.vocabulary.Vocabulary.glue`.
        log_prob: log q of the token when it was drawn, in nats; None if it was given.
        entropy: of the conditional it was drawn from, in nats.
    """

    position: int
    text: str | None
    glue: int = 0
    log_prob: float | None = None
    entropy: float | None = None


@dataclass(frozen=True)
class Recording(Record):
    """A text and how it came about.

    Attributes:
        length: positions of the text.
        given: what stood there from the beginning.
        steps: what each step changed.
        breaks: positions that begin a new line.
        title: what was asked for, in a line.
        note: how it was made, in a line.
    """

    length: int
    given: tuple[Drawn, ...]
    steps: tuple[tuple[Drawn, ...], ...]
    breaks: tuple[int, ...] = ()
    title: str = ""
    note: str = ""

    def states(self, after: Collection[int] | None = None) -> list[list[Drawn | None]]:
        """The text before the first step and after each one, or after those numbers of steps alone: many states of a
        long text are more than memory holds. None where nothing stands.
        """
        row: list[Drawn | None] = [None] * self.length
        states = []
        for number, step in enumerate((self.given, *self.steps)):
            for one in step:
                row[one.position] = one if one.text is not None else None
            if after is None or number in after:
                states.append(list(row))
        return states


@dataclass
class Recorder:
    """Records the first text of a generation; :meth:`watch` is an :data:`anyorder.tasks.generate.Watch`."""

    title: str = ""
    note: str = ""
    _steps: list[tuple[Drawn, ...]] = field(default_factory=list)
    _task: Plan | None = None
    _before: list[int] = field(default_factory=list)

    def watch(self, task: Plan, state: Any, info: Info, start: int) -> None:
        """Take note of one step of the first text."""
        if start > 0:
            return
        if self._task is None:
            self._task, self._before = task, task.canvas.layout.tokens.tolist()
        tokens = state.tokens[0].tolist()
        step = changes(task, self._before, tokens, info, 0)
        self._before = tokens
        if step:
            self._steps.append(step)

    def recording(self, task: Plan) -> Recording:
        """What was recorded so far of ``task``."""
        tokens = task.canvas.layout.tokens.tolist()
        mask = task.vocabulary.tokenizer.mask_token_id
        inner = positions(task)
        given = [_drawn(task, i, tokens[p]) for i, p in enumerate(inner) if tokens[p] != mask]
        lines = tuple(inner.index(position) for position in breaks(task))
        return Recording(len(inner), tuple(given), tuple(self._steps), lines, self.title, self.note)


def headline(model: str, options: GenerateOptions) -> tuple[str, str]:
    """Title and note of a recording: what was given, and the settings that made the text."""
    given = [f"{name}: {value}" for name in _GIVEN if (value := getattr(options, name)) is not None]
    sampler, chosen = options_of(options.sampler, {name: getattr(options, name) for name in SAID})
    own = {one.name: getattr(chosen, one.name) for one in fields(chosen) if one.name not in _GIVEN}
    said = [sampler, *(f"{name} {value}" for name, value in own.items() if value not in (None, False))]
    said += [f"temperature {options.temperature:g}"] if options.temperature != 1 else []
    said += [f"{name.replace('_', '-')} {value:g}" for name in _CUTS if (value := getattr(options, name)) is not None]
    return "; ".join(given), ", ".join([*said, f"seed {options.seed}", f"model {model}"])


def positions(task: Plan) -> list[int]:
    """The positions of the text itself, without the special tokens around it."""
    return task.inner().nonzero().squeeze(1).tolist()


def changes(task: Plan, before: Sequence[int], after: Sequence[int], info: Info, row: int) -> tuple[Drawn, ...]:
    """What a step changed in one text: the tokens drawn (also if they came out the same), then what else is new.

    The latter are tokens masked again, and tokens that a sampler starts from without having drawn them.
    """
    mask = task.vocabulary.tokenizer.mask_token_id
    number = {position: i for i, position in enumerate(positions(task))}
    accepted = info.accepted is None or bool(info.accepted[row])
    said = zip(info.positions[row].tolist(), info.log_prob[row].tolist(), info.entropy[row].tolist(), strict=True)
    drawn = {p: numbers for p, *numbers in said if p >= 0 and accepted and after[p] != mask}
    other = [p for p in number if after[p] != before[p] and p not in drawn]
    return (
        *(_drawn(task, number[p], after[p], *numbers) for p, numbers in drawn.items()),
        *(Drawn(number[p], None) if after[p] == mask else _drawn(task, number[p], after[p]) for p in other),
    )


def _drawn(task: Plan, number: int, token: int, log_prob: float | None = None, entropy: float | None = None) -> Drawn:
    words = task.vocabulary
    return Drawn(number, words.surface(token), words.glue(token), log_prob, entropy)


def breaks(task: Plan) -> list[int]:
    """Positions of the row at which a blank follows a line break of the text around it, as those of an acrostic do."""
    layout = task.canvas.layout
    return [run[0] for run, text in zip(layout.slots, layout.texts, strict=False) if run and "\n" in text]
