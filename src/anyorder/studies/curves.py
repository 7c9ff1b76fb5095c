"""Learning curves: the held-out loss of training runs against the tokens they read, from their own logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError
from anyorder.files.json_text import parse_json
from anyorder.stats import Record

LOG = "metrics.jsonl"


@dataclass(frozen=True)
class Reading(Record):
    """One validation of a run.

    Attributes:
        run: The run's name; ``… in order`` for its loss read in order.
        step: Optimiser steps taken.
        tokens: Tokens read.
        loss: Held-out loss of the run's own objective, nats per token.
        standard_error: Its standard error over held-out texts.
    """

    run: str
    step: int
    tokens: int
    loss: float
    standard_error: float


def read_curve(name: str, path: Path) -> Iterator[Reading]:
    """The validations of the run in ``path``: its folder, or the log itself; a line torn by a kill ends it."""
    log = path / LOG if path.is_dir() else path
    if not log.is_file():
        raise AnyorderError(f"there is no training log at {log}: name the output folder of `anyorder train`")
    readings = list(_readings(log))
    for key, shown in (("validation", name), ("validation_ordered", f"{name} in order")):
        for reading in readings:
            if key in reading:
                found = reading[key]
                yield Reading(shown, reading["step"], reading["tokens"], found["value"], found["standard_error"])
    if not any("validation" in reading for reading in readings):
        raise AnyorderError(f"{log} holds no validation yet: it writes one every run.evaluate_every steps")


def _readings(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            reading = parse_json(line)
        except json.JSONDecodeError:
            return
        if not isinstance(reading, dict):
            raise AnyorderError(f"{log} is no training log: name the output folder of `anyorder train`")
        yield reading
