"""``make campaign MINUTES=10``: bad inputs, tampered checkpoints and faults until the time is up; counts as JSON.

PYTHONPATH=src:tests python -m campaign --minutes 10 --seed 0 --out artefacts/campaign.json
PYTHONPATH=src:tests python -m campaign --kind recipes --seed 17 --rounds 1    (what the seed of a failure did, again)
"""

from __future__ import annotations

import argparse
import gc
import itertools
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

import anyorder
from campaign import every, faults
from campaign.inputs import client_of, explore
from campaign.place import loaded_once, place
from campaign.tally import Tally

MEMORY = 8 * 2**30  # bytes of address space: what asks for more is refused by the system, and should have been by us
FAULTS = 0.3  # of the time
Act = Callable[[int, Tally], None]


def main() -> int:
    """The command's status: 1 if anything failed."""
    options = _options()
    torch.set_num_threads(1)
    disable_progress_bar()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    began, out = time.monotonic(), options.out.resolve()
    only = tuple((options.kind or "").split(","))
    tally = Tally()
    if not options.kind:  # faults fork, which only a process without threads should do: they have one of their own
        mine = out.with_name(out.name + ".faults")
        said = ["--kind", "faults", "--seed", str(options.seed), "--out", str(mine)]
        said += ["--rounds", str(options.rounds)] if options.rounds else ["--minutes", str(FAULTS * options.minutes)]
        subprocess.run([sys.executable, "-m", "campaign", "--quiet", *said], check=False)
        tally.add(mine)
        mine.unlink()

    def save() -> None:
        """After every seed of a kind, so that a campaign that is killed has counted what it did."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        minutes = round((time.monotonic() - began) / 60, 1)
        tally.write(out, date=now, cpu=_cpu(), python=platform.python_version(), minutes=minutes, seed=options.seed)

    with place(), loaded_once():
        if options.kind and options.kind.startswith("faults"):
            truths = faults.truths()
            acts = [partial(faults.inject, name, truths) for name in faults.NAMES if name.startswith(only)]
            _until(options, began, acts, tally, save)
        else:
            with client_of(anyorder.load("model")) as client:
                found = every.kinds(client)
                gc.freeze()  # the libraries' own objects need no looking through, ever again
                acts = [partial(explore, name, found[name], options.examples or every.examples(name))
                        for name in found if name.startswith(only)]  # fmt: skip
                _until(options, began, acts, tally, save)
    if not options.quiet:
        tally.show()
    return int(bool(tally.failures))


def _until(options: argparse.Namespace, began: float, acts: list[Act], tally: Tally, save: Callable[[], None]) -> None:
    """Each act with one seed after another until the time is up, or with as many as were asked for."""
    end = began + 60 * options.minutes
    for number in itertools.count(options.seed) if options.rounds is None else range(options.rounds):
        for act in acts:
            if options.rounds is None and time.monotonic() > end:
                return
            act(number if options.rounds is None else options.seed + number, tally)
            save()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="campaign", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rounds", type=int, help="seeds per kind, in place of a time")
    parser.add_argument("--examples", type=int, help="inputs per seed, the same for every kind")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", help="kinds that begin so only, commas between: texts, HTTP, options, files, "
                                       "recipes, checkpoints, leftovers; or faults")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("artefacts/campaign.json"))
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
