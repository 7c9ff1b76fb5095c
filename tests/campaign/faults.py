"""Faults: kill -9, a full disk, a read-only folder, a clock that jumps, two processes on one output.

Every fault happens to a fork of this process, which has imported everything and must have no other thread: a command
then starts within milliseconds. Afterwards the command is given again, with ``--resume`` where it has one, and what it
leaves must be byte for byte what an undisturbed run leaves.
"""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from anyorder.cli import files, main
from anyorder.metrics import bootstrap
from campaign.tally import Broken, Tally
from toy_tasks import sst2_lines

WAIT = 120.0  # seconds, on a machine where others work, too
WRITES = ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", "shutil.rmtree")


class Job(NamedTuple):
    """A command whose output must survive."""

    words: str
    outputs: tuple[str, ...]
    resume: bool = True
    files: tuple[str, ...] = ()  # of an output that is a folder; all of it if none is named


JOBS = {
    "fill": Job("fill --model model --file many.txt --out out.jsonl --beam 2", ("out.jsonl",)),
    "score": Job("score --model model many.txt --out out.tsv --method pll", ("out.tsv",)),
    "translate": Job("translate --model translator --file many.txt --out out.jsonl --steps 1", ("out.jsonl",)),
    "pairwise": Job(
        "evaluate pairwise --model model --data texts.txt --examples 6 --method mlm --method mrf --out out.log --json",
        ("out.log",),
    ),
    "train": Job(
        "train recipe.yaml --quiet --set optim.steps=6 --set run.checkpoint_every=2", ("run",),
        files=("final/model.safetensors", "final/config.json"),
    ),
    "finetune": Job(
        "finetune sst2 --model model --data-dir glue --out out --epochs 1 --batch 8 --lr 0.001 --json", ("out",),
        resume=False, files=("model.safetensors", "predictions.jsonl"),
    ),
}  # fmt: skip
LINES, WINDOW = 40, 16  # texts, and how many of them are written together


def furnish() -> None:
    """The files of the jobs; small windows and few resamples, so that a job is short and yet writes often."""
    files.WINDOW = WINDOW
    bootstrap.REPLICATES = 50
    rng = random.Random(1)
    words = Path("texts.txt").read_text().split()
    Path("many.txt").write_text("".join(f"{rng.choice(words)} {rng.choice(words)} ___\n" for _ in range(LINES)))
    place = Path("glue/SST-2")
    place.mkdir(parents=True)
    for part, count in (("train", 16), ("dev", 8)):
        (place / f"{part}.tsv").write_text("\n".join(sst2_lines(count, 0)) + "\n")


# --- one command in a fork -------------------------------------------------------------------------------------------


def start(words: str, before: Callable[[], object] | None = None, said: str = "said") -> int:
    """Run a command in a fork, ``before`` first; returns its process id. What it says goes into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.argv = ["anyorder", *words.split()]
        if before is not None:
            before()
        main()
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # whatever it is, the parent has to hear of it
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def end(pid: int, seconds: float = WAIT) -> int:
    """The status of a fork; minus the signal's number if one killed it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise Broken(f"no end within {seconds:.0f} s")


def clean(job: Job) -> None:
    """Remove the outputs and everything that lies beside them."""
    for name in job.outputs:
        for path in Path().glob(f"{name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def content(job: Job) -> dict[str, Any]:
    """What the outputs hold, without what differs between two undisturbed runs: seconds."""
    found: dict[str, Any] = {}
    for name in job.outputs:
        for path in [Path(name, file) for file in job.files] if job.files else [Path(name)]:
            data = path.read_bytes()
            if name.endswith(".log"):
                rows = [json.loads(line) for line in data.splitlines()]
                found[str(path)] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
            else:
                found[str(path)] = data
    return found


def expected(job: Job) -> tuple[dict[str, Any], float]:
    """The outputs of an undisturbed run, and how long it takes."""
    clean(job)
    began = time.monotonic()
    status = end(start(job.words))
    if status:
        raise Broken(f"{job.words} ends with {status}: {Path('said').read_text()[-300:]}")
    return content(job), time.monotonic() - began


def check_again(job: Job, truth: dict[str, Any], again: str | None = None) -> None:
    """Give the command again; it must end, and with the same output."""
    status = end(start(again or (f"{job.words} --resume" if job.resume else job.words)))
    if status:
        raise Broken(f"resuming ends with {status}: {Path('said').read_text()[-300:]}")
    if content(job) != truth:
        raise Broken("the resumed output differs from that of an undisturbed run")
    left = [path.name for name in job.outputs for path in Path().glob(f"{name}.*")]
    if left:
        raise Broken(f"something is left beside the output: {left}")


# --- the faults ------------------------------------------------------------------------------------------------------


def at_write(number: int, act: Callable[[], object], under: tuple[str, ...]) -> None:
    """In this process, ``act`` before the ``number``-th operation that changes a file of the outputs."""
    seen = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open":
            path, _, flags = args
            if not (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)):
                return
        elif event in WRITES:
            path = args[0]
        else:
            return
        if Path(os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else "").name == "":
            return
        relative = os.path.relpath(os.fsdecode(path))
        if relative.startswith(under):
            seen += 1
            if seen == number:
                act()

    sys.addaudithook(hook)


def _kill_me() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fails(code: int) -> None:
    raise OSError(code, os.strerror(code))


def one_line(said: str) -> None:
    """What a command that failed for the disk's sake has said."""
    if "Traceback" in said or len(said.strip().splitlines()) != 1 or not said.startswith("anyorder: "):
        raise Broken(f"not one line: {said[-300:]!r}")


def killed_by_time(job: Job, truth: dict[str, Any], seconds: float, rng: random.Random) -> str:
    """kill -9 at one to three random moments."""
    clean(job)
    again = f"{job.words} --resume" if job.resume else job.words
    for turn in range(rng.randint(1, 3)):
        pid = start(again if turn else job.words)
        time.sleep(rng.uniform(0, seconds))
        os.kill(pid, signal.SIGKILL)
        end(pid)
    check_again(job, truth, again if job.resume or not Path(job.outputs[0]).exists() else f"{again} --overwrite")
    return "killed"


def killed_by_write(job: Job, truth: dict[str, Any], seconds: float, rng: random.Random) -> str:
    """kill -9 just before the n-th change of an output."""
    clean(job)
    number = rng.randint(1, 40 if job.outputs == ("run",) else 8)
    status = end(start(job.words, partial(at_write, number, _kill_me, job.outputs)))
    again = f"{job.words} --resume" if job.resume else job.words
    check_again(job, truth, again if job.resume or not Path(job.outputs[0]).exists() else f"{again} --overwrite")
    return "killed" if status == -signal.SIGKILL else "ended before"


def disk_fails(job: Job, truth: dict[str, Any], seconds: float, rng: random.Random, code: int) -> str:
    """The n-th change of an output fails: a full disk, or a folder that has become read-only."""
    clean(job)
    number = rng.randint(1, 40 if job.outputs == ("run",) else 8)
    status = end(start(job.words, partial(at_write, number, partial(_fails, code), job.outputs)))
    if status == 0:
        check_again(job, truth, job.words + (" --resume" if job.resume else " --overwrite"))
        return "ended before"
    if status not in (1, 2):
        raise Broken(f"status {status}: {Path('said').read_text()[-300:]}")
    one_line(Path("said").read_text())
    check_again(job, truth, job.words + (" --resume" if job.resume else ""))
    return "refused"


def file_too_large(job: Job, truth: dict[str, Any], seconds: float, rng: random.Random) -> str:
    """The system itself refuses bytes beyond a limit, in the middle of a write, to any library."""
    clean(job)
    limit = rng.choice([0, 1, 100, 1000, 4096, 10_000, 40_000])
    limited = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    # What it says must not fall under the limit: it goes through a pipe.
    reader, writer = os.pipe()
    pid = start(job.words, lambda: (os.dup2(writer, 1), os.dup2(writer, 2), limited()))
    os.close(writer)
    status = end(pid)
    said = os.read(reader, 65536).decode()
    os.close(reader)
    if status == 0:
        return "ended before"
    if status not in (1, 2):
        raise Broken(f"status {status}: {said[-300:]}")
    one_line(said)
    check_again(job, truth, job.words + (" --resume" if job.resume else ""))
    return "refused"


def clock_jumps(job: Job, truth: dict[str, Any], seconds: float, rng: random.Random) -> str:
    """Every clock that Python offers goes forwards and backwards by hours."""
    clean(job)
    seed = rng.random()

    def jump() -> None:
        steps = random.Random(seed)
        for name in ("time", "monotonic", "perf_counter"):
            real = getattr(time, name)
            setattr(time, name, lambda real=real: real() + steps.uniform(-7200, 7200))

    status = end(start(job.words, jump))
    if status:
        raise Broken(f"status {status}: {Path('said').read_text()[-300:]}")
    if content(job) != truth:
        raise Broken("the output depends on the clock")
    return "survived"


def two_at_once(job: Job, truth: dict[str, Any], seconds: float, rng: random.Random) -> str:
    """Two processes with one output: one is refused, or both end one after the other; the output is whole."""
    clean(job)
    first = start(job.words, said="said1")
    time.sleep(rng.uniform(0, seconds / 2))
    second = start(job.words, said="said2")
    statuses = [end(first), end(second)]
    for status, said in zip(statuses, ("said1", "said2"), strict=True):
        if status == 2:
            one_line(Path(said).read_text())
        elif status:
            raise Broken(f"status {status}: {Path(said).read_text()[-300:]}")
    if 0 not in statuses:
        raise Broken("neither of two processes wrote the output")
    if content(job) != truth:
        raise Broken("two processes have spoilt one output")
    return "refused" if 2 in statuses else "survived"


FAULTS: dict[str, Callable[..., str]] = {
    "faults: kill -9 at a moment": killed_by_time,
    "faults: kill -9 at a write": killed_by_write,
    "faults: full disk at a write": partial(disk_fails, code=errno.ENOSPC),
    "faults: read-only at a write": partial(disk_fails, code=errno.EROFS),
    "faults: file size limit": file_too_large,
    "faults: jumping clock": clock_jumps,
    "faults: two processes": two_at_once,
}


SERVER = "faults: server killed"
NAMES = (*FAULTS, SERVER)


def server_killed(rng: random.Random) -> str:
    """kill -9 of a server in the middle of requests: the next one takes the same port and answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = f"serve --model model --port {port}"
    body = json.dumps({"texts": "the ___ sat", "seed": 1}).encode()
    for last in (False, True):
        pid = start(words)
        try:
            answer = _asked(port, body)
            if not last:
                with _begun(port):
                    time.sleep(rng.uniform(0, 0.05))
                    os.kill(pid, signal.SIGKILL)
        finally:
            os.kill(pid, signal.SIGKILL)
            end(pid)
        if "results" not in answer:
            raise Broken(f"the server says {answer}")
    return "killed"


def _begun(port: int) -> socket.socket:
    """A request for much, which is sent and not waited for."""
    body = json.dumps({"length": 60, "samples": 64, "sampler": "gibbs", "steps": 4096}).encode()
    asking = socket.create_connection(("127.0.0.1", port), WAIT)
    head = (
        f"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    asking.sendall(f"{head}\r\n\r\n".encode() + body)
    return asking


def _asked(port: int, body: bytes) -> dict[str, Any]:
    until = time.monotonic() + WAIT
    while True:
        try:
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/fill", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=WAIT) as answer:
                return dict(json.load(answer))
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def inject(name: str, found: dict[str, tuple[dict[str, Any], float]], number: int, tally: Tally) -> None:
    """One fault of the kind ``name``, on the job that the seed ``number`` chooses."""
    rng = random.Random(f"{number} {name}")
    if name == SERVER:
        tally.attempt(name, number, "serve", partial(server_killed, rng), limit=3 * WAIT)
        return
    chosen = rng.choice(list(found))
    act = partial(FAULTS[name], JOBS[chosen], *found[chosen], rng)
    tally.attempt(name, number, f"{chosen}: {JOBS[chosen].words}", act, limit=3 * WAIT)


def truths(names: tuple[str, ...] = tuple(JOBS)) -> dict[str, tuple[dict[str, Any], float]]:
    """What each job leaves if nothing happens to it."""
    furnish()
    return {name: expected(JOBS[name]) for name in names}
