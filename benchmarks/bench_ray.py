"""`--engine ray` against the plain command, and two workers against one: rows per second in one run.

python benchmarks/bench_ray.py [--repeats 3] [--quick] [--json]

Asked: two workers at least 1.7x one on two cores; a worker at least 0.9x the plain command. Ray and the workers have
started and read their models before the clock runs (docs/scale.md says what that costs), the plain command's model is
read, too; reading, sending, ordering and writing are in. All three write the same bytes, which is checked.
"""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from common import machine, parser, ratio, show, turns

from anyorder.cli.common import ModelOptions, load_model
from anyorder.cli.files import WINDOW, Engine, Here, Output, Window, _windows
from anyorder.files.journal import Results
from anyorder.integrations.ray import Job, Pool
from anyorder.integrations.ray.cluster import connected
from anyorder.show.answers import Answers, answering
from anyorder.tasks.lm import MaskedLM
from anyorder.tasks.options import ScoreOptions

WORDS = ["the", "old", "man", "opened", "a", "door", "and", "walked", "into", "his", "garden", "where", "two", "dogs"]


def sentences(count: int) -> list[str]:
    """Sentences of about 14 words."""
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=max(4, round(draw.gauss(14, 4))))) + "." for _ in range(count)]


def main() -> None:
    arguments = parser(__doc__)
    arguments.set_defaults(repeats=3)
    said = arguments.parse_args()
    import torch

    torch.set_num_threads(1)  # as a worker has one
    options = ScoreOptions(method="bound", samples=2 if said.quick else 8)
    given = sentences((2 if said.quick else 8) * WINDOW)
    lm = load_model(ModelOptions())

    def here(_: MaskedLM, window: Window) -> Answers:
        return answering("score").answer(lm, window.texts, options, window.first, False, lambda _: None)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(connected(None, 3))
        engines: dict[str, Engine] = {
            "plain": Here(lm, here),
            "one": Pool(Job("score", options), 1),
            "two": Pool(Job("score", options), 2),
        }

        def write(name: str) -> None:
            results = Results(folder / name, {})
            (folder / name).unlink(missing_ok=True)
            output = Output(folder / name, given, len(given))
            for _, answers in engines[name].answers(_windows([results], [iter(output.texts)])):
                results.write(answers.lines)
            results.finish()

        seconds = turns({name: partial(write, name) for name in engines}, said.repeats)
        written = {name: (folder / name).read_bytes() for name in engines}
    if len(set(written.values())) != 1:
        raise SystemExit("the engines do not write the same bytes")
    show(
        [
            ratio("two workers over one", seconds["one"], seconds["two"], 1.7),
            ratio("one worker over the plain command", seconds["plain"], seconds["one"], 0.9),
        ],
        {**machine(), "rows": len(given)},
        said.json,
    )


if __name__ == "__main__":
    main()
