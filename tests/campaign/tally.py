"""What a campaign counts: inputs answered and refused, faults survived, and each failure with what reproduces it."""

from __future__ import annotations

import json
import math
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

LIMIT = 20.0  # seconds of CPU for one input: ten times what the slowest sound one takes
SHOWN = 400  # characters kept of an input or an error


class Broken(Exception):
    """A promise that was not kept, in one sentence."""


class Hang(BaseException):
    """The time is up. Not an Exception, so that no handler takes it for one of its own."""


@dataclass(frozen=True)
class Failure:
    """What was done, what came of it, and the seed that does it again."""

    kind: str
    seed: int
    number: int  # of the input within its seed, from 1
    given: str
    what: str
    where: str


@dataclass
class Tally:
    """Counts per kind of input or fault."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def attempt(self, kind: str, seed: int, given: Any, act: Callable[[], str], limit: float = LIMIT) -> None:
        """Do ``act``, which says "answered", "refused" or how a fault was met; anything it raises is a failure."""
        counts = self.counts.setdefault(kind, Counter())
        counts["tried"] += 1
        counts[f"seed {seed}"] += 1
        try:
            with time_limit(limit):
                counts[act()] += 1
        except BaseException as error:  # anything an input brings about is a finding, panics and hangs too
            if isinstance(error, KeyboardInterrupt) or type(error).__module__.startswith("hypothesis"):
                raise
            counts["failed"] += 1
            self.failures.append(
                Failure(kind, seed, counts[f"seed {seed}"], str(given)[:SHOWN], described(error), place_of(error))
            )

    def report(self) -> dict[str, Any]:
        """Counts per kind, without the seeds, and one failure per place: the rest are the same again."""
        counts = {kind: {k: v for k, v in found.items() if k[:5] != "seed "} for kind, found in self.counts.items()}
        first = {(one.kind, one.where, one.what[:60]): one for one in reversed(self.failures)}
        return {"counts": counts, "failures": [asdict(one) for one in reversed(first.values())]}

    def add(self, path: Path) -> None:
        """What another process has counted and written."""
        found = json.loads(path.read_text(encoding="utf-8"))
        for kind, counts in found["counts"].items():
            self.counts.setdefault(kind, Counter()).update(counts)
        self.failures += [Failure(**one) for one in found["failures"]]

    def show(self) -> None:
        """Print the report."""
        found = self.report()
        for kind, counts in found["counts"].items():
            print(f"{kind:34} " + "  ".join(f"{name} {count:,}" for name, count in counts.items()))
        for one in found["failures"]:
            print(f"FAILED {one['kind']} --seed {one['seed']} #{one['number']}: {one['what']}  [{one['where']}]")
            print(f"       given {one['given']}")

    def write(self, path: Path, **about: Any) -> None:
        """The report as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**about, **self.report()}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`Hang` in here once so much CPU time is spent, or ten times as much has passed: others work, too.

    In the main thread only, as Python's signals are.
    """

    def up(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no answer within {seconds:.0f} s")

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 10 * seconds)}
    before = {number: signal.signal(number, up) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def described(error: BaseException) -> str:
    """The error in a line."""
    said = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:SHOWN]


def place_of(error: BaseException) -> str:
    """The last line of ours that it came through, and the last one of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/anyorder/" in frame.filename] or frames
    return " < ".join(dict.fromkeys(f"{Path(f.filename).name}:{f.lineno}" for f in (ours[-1], frames[-1])))


def check_numbers(value: Any, where: str = "answer") -> None:
    """Refuse NaN anywhere in a result: a number that is not known is None. Minus infinity is log 0, and is one."""
    if isinstance(value, float) and (math.isnan(value) or value == math.inf):
        raise Broken(f"{where} is {value}")
    if isinstance(value, dict):
        for key, part in value.items():
            check_numbers(part, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for part in value:
            check_numbers(part, f"{where}[]")


def check_sentence(message: str) -> None:
    """A refusal is one line that says something."""
    if "\n" in message.strip() or "\r" in message.strip():
        raise Broken(f"a refusal of several lines: {message!r}")
    if len(message) < 10 or "Traceback" in message:
        raise Broken(f"a refusal that says nothing: {message!r}")
