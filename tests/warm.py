"""Processes of their own without the price of imports: forked from one that has imported torch and transformers.

A test that kills a command, or runs one twice at a time, needs processes; it does not need each of them to spend five
seconds of CPU on imports. What a command imports has its own tests (cli/test_start_up.py, models/test_lean.py).
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

MAIN = "from anyorder.cli import main; main()"
_CONTEXT = get_context("forkserver")
# Imports only: torch's autograd does not work in the fork of a process that has already used it.
_CONTEXT.set_forkserver_preload(["anyorder.training.trainer", "anyorder.cli", "transformers.models.auto.modeling_auto"])


def started(*arguments: object, code: str = MAIN, said: Path, **environment: str) -> ForkServerProcess:
    """``python -c code arguments...`` in this test's folder and environment; what it prints goes to the file ``said``.

    It has begun when this returns; join it, or kill it.
    """
    words = [str(one) for one in arguments]
    place = (os.getcwd(), {**os.environ, "OMP_NUM_THREADS": "1", **environment})
    process = _CONTEXT.Process(target=_run, args=(code, words, place, str(said)))
    process.start()
    return process


def ended(process: ForkServerProcess, seconds: float = 900) -> int:
    """The status it ends with; minus the signal that ended it."""
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{process} did not end in {seconds} seconds")
    return process.exitcode


def _run(code: str, arguments: list[str], place: tuple[str, dict[str, str]], said: str) -> None:
    folder, environment = place
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    with open(said, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the fork server ignores
    sys.argv = ["anyorder", *arguments]
    exec(compile(code, "<warm>", "exec"), {"__name__": "__main__"})
