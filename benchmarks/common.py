"""What every benchmark shares. Figures are ratios measured in one run: seconds alone say more about the machine.

Two things are timed by turns (a, b, a, b, ...), so that a busy neighbour disturbs both alike, and the ratio is the
median over turns. On a busy machine set OMP_NUM_THREADS=1: threads that wait for each other measure the
neighbours. Peak memory is that of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ratio:
    """One measured ratio and what it is held to."""

    name: str
    value: float
    low: float  # quartiles over turns
    high: float
    target: float | None = None
    at_most: bool = False  # the target is an upper bound

    @property
    def ok(self) -> bool:
        """The target is met, or there is none."""
        if self.target is None:
            return True
        return self.value <= self.target if self.at_most else self.value >= self.target

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        text = f"{self.name}: {self.value:.3g}x (quartiles {self.low:.3g} to {self.high:.3g})"
        if self.target is None:
            return text
        bound = f"{'at most' if self.at_most else 'at least'} {self.target:g}x"
        return f"{text}; asked: {bound}: {'ok' if self.ok else 'SHORT'}"


def turns(
    functions: dict[str, Callable[[], Any]],
    repeats: int = 7,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each function, ``repeats`` turns of all of them one after the other.

    ``clock=time.process_time`` counts this process's own work on one thread, which a busy neighbour cannot stretch.
    """
    for _ in range(warmup):
        for function in functions.values():
            function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = clock()
            function()
            seconds[name].append(clock() - start)
    return seconds


def clock() -> float:
    """CPU time on one thread, which a busy neighbour cannot stretch; else the wall's."""
    import torch

    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def ratio(name: str, slow: list[float], fast: list[float], target: float | None = None, at_most: bool = False) -> Ratio:
    """How many times faster ``fast`` is than ``slow``: the median over turns, with quartiles."""
    each = [a / b for a, b in zip(slow, fast, strict=True)]
    low, value, high = statistics.quantiles(each, n=4) if len(each) > 1 else [each[0]] * 3
    return Ratio(name, value, low, high, target, at_most)


def peak_memory_here() -> int:
    """Bytes this process has held at most. VmHWM, since ru_maxrss starts at the parent's own peak after a fork."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024


def peak_memory(script: str | os.PathLike[str], *arguments: str) -> int:
    """Bytes held at most by ``python script *arguments``, which prints ``peak_memory_here()`` last."""
    command = [sys.executable, os.fspath(script), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr}")
    return int(run.stdout.split()[-1])


def matmul_peak(size: int = 1536, repeats: int = 5) -> float:
    """This machine's float32 matrix product, in GFLOP/s: the best of ``repeats``, with torch's own threads."""
    import torch

    from anyorder.models.products import linear

    a, b = torch.randn(size, size), torch.randn(size, size)
    seconds = turns({"torch": lambda: a @ b, "ours": lambda: linear(a, b)}, repeats)  # by MKL or oneDNN: products.py
    return 2 * size**3 / min(map(min, seconds.values())) / 1e9


def bf16_speedup(size: int = 512) -> float | None:
    """How much faster than float32 a bfloat16 product is; None where it is emulated (no AMX, no AVX512-BF16)."""
    import torch

    info = Path("/proc/cpuinfo")
    flags = info.read_text() if info.exists() else ""
    if not torch.cuda.is_available() and not any(flag in flags for flag in ("amx_bf16", "avx512_bf16")):
        return None
    a, b = torch.randn(size, size), torch.randn(size, size)
    half = (a.bfloat16(), b.bfloat16())
    seconds = turns({"fp32": lambda: a @ b, "bf16": lambda: half[0] @ half[1]})
    return statistics.median(seconds["fp32"]) / statistics.median(seconds["bf16"])


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import torch
    import transformers

    info = Path("/proc/cpuinfo")
    models = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] \
        if info.exists() else []  # fmt: skip
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "matmul_gflops": round(matmul_peak(), 1),
        "bf16": bf16_speedup() or "unavailable (emulated on this CPU)",
    }


def parser(description: str | None) -> argparse.ArgumentParser:
    """Options common to all: ``--json``, ``--repeats``, ``--quick``."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--repeats", type=int, default=7, help="turns; the median counts")
    made.add_argument("--quick", action="store_true", help="the smallest model and few turns")
    return made


def show(ratios: list[Ratio], settings: dict[str, Any], as_json: bool) -> None:
    """Print the result; the process succeeds whatever it says: a slow machine is no failure of the code."""
    if as_json:
        print(json.dumps({"rows": [r.to_dict() for r in ratios], "settings": settings}, indent=2))
        return
    print(", ".join(f"{key} {value}" for key, value in settings.items()))
    for r in ratios:
        print(r)
