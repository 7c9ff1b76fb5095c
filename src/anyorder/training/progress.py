"""The progress of a run: a bar on the terminal, and a line of JSON for every reading."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from anyorder.files.json_text import parse_json
from anyorder.stats import Estimate
from anyorder.training.recipe import Recipe

Validation = tuple[Estimate, dict[str, Estimate]]  # the loss, and that of each file of a mixture


class Meter:
    """Readings of a run, kept by its first process only. A resumed run first drops readings past its checkpoint."""

    def __init__(self, path: Path, recipe: Recipe, start: int, active: bool, quiet: bool) -> None:
        self.path, self.recipe, self.start = path, recipe, start
        self.active, self.quiet = active, quiet
        self.tokens = 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[reading]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=quiet or not self.active or not sys.stderr.isatty(),
        )

    def __enter__(self) -> Meter:
        if self.active:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._drop_readings_after(self.start)
            self.file = self.path.open("a", encoding="utf-8")
        self.task = self.bar.add_task("training", total=self.recipe.optim.steps, completed=self.start, reading="")
        self.bar.start()
        self.clock, self.since = time.perf_counter(), self.tokens
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
        if self.active:
            self.file.close()

    def _drop_readings_after(self, step: int) -> None:
        if not self.path.exists():
            return
        # Cut off, not written anew: a run killed here keeps what it had.
        kept = 0  # bytes
        for raw in self.path.read_bytes().splitlines(keepends=True):
            try:
                reading = parse_json(raw)
                if reading["step"] > step or not raw.endswith(b"\n"):
                    break
                self.tokens = int(reading.get("tokens", self.tokens))
            except (ValueError, KeyError, TypeError):
                break  # torn by a kill: it and what follows belong to lost steps
            kept += len(raw)
        os.truncate(self.path, kept)

    def step(self, step: int, loss: float, tokens: int, rate: float, readings: dict[str, Estimate]) -> None:
        """After every optimiser step; ``readings``: the losses of its texts by how they were read, if in two ways."""
        self.tokens += tokens
        if not self.active:
            return
        if step % self.recipe.run.log_every == 0 or step == self.recipe.optim.steps:
            now = time.perf_counter()
            speed = (self.tokens - self.since) / max(now - self.clock, 1e-9)
            self.clock, self.since = now, self.tokens
            reading: dict[str, Any] = {"step": step, "loss": loss, "rate": rate, "tokens": self.tokens}
            reading |= {name: part.to_dict() for name, part in readings.items()}
            self._write({**reading, "tokens_per_second": speed, "memory": psutil.Process().memory_info().rss})
            self.bar.update(self.task, reading=f"loss {loss:.3f}  {speed:,.0f} tokens/s")
        self.bar.update(self.task, completed=step)

    def validation(self, step: int, found: Validation, in_order: Validation | None = None) -> None:
        """After every validation; ``in_order``: of the same texts read in order."""
        if not self.active:
            return
        reading: dict[str, Any] = {"step": step, "tokens": self.tokens}
        message = f"step {step}: validation"
        for name, one in (("", found), ("_ordered", in_order)):
            if one is not None:
                loss, files = one
                reading["validation" + name] = loss.to_dict()
                if files:
                    reading["files" + name] = {file: part.to_dict() for file, part in files.items()}
                message += f"{', in order' * bool(name)} {loss.value:.4f} ± {loss.standard_error:.4f} nats per token"
        self._write(reading)
        if not self.quiet:
            self.bar.console.print(message)
        # what was spent on validating is not training speed
        self.clock, self.since = time.perf_counter(), self.tokens

    def _write(self, reading: dict[str, Any]) -> None:
        self.file.write(json.dumps(reading) + "\n")
        self.file.flush()
