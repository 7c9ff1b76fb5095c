"""CPU time of `anyorder fill` from the shell, beside what importing torch and transformers alone takes.

python benchmarks/bench_start.py [--quick] [--json]

Every turn starts each program once in a process of its own; files are in the disk cache after the first turn, which
does not count. "In full" is the same fill without ``models/lean.py``.
"""

from __future__ import annotations

import resource
import subprocess
import sys

from common import machine, parser, ratio, show, turns

TEXT = "The ___ sat on the ___."
PROGRAMS = {
    "fill": ["-m", "anyorder", "fill", TEXT],
    "in full": ["-c", f"import anyorder; anyorder.load().fill({TEXT!r})"],
    "libraries": ["-c", "import torch, transformers.utils"],
    "version": ["-m", "anyorder", "--version"],
}


def cpu_of_children() -> float:
    """Seconds of CPU that finished processes of ours have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def main() -> None:
    arguments = parser(__doc__).parse_args()
    repeats = 2 if arguments.quick else arguments.repeats
    seconds = turns(
        {name: lambda program=program: run(program) for name, program in PROGRAMS.items()},
        repeats,
        clock=cpu_of_children,
    )
    ratios = [
        ratio("anyorder fill in full over anyorder fill", seconds["in full"], seconds["fill"]),
        ratio("anyorder fill over importing torch and transformers", seconds["fill"], seconds["libraries"]),
        ratio("importing torch and transformers over anyorder --version", seconds["libraries"], seconds["version"]),
    ]
    least = {f"{name}, least CPU seconds": round(min(each), 2) for name, each in seconds.items()}
    show(ratios, {**machine(), **least}, arguments.json)


if __name__ == "__main__":
    main()
