"""Learning curves: the held-out loss of training runs against the tokens they read, from their own logs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError
from anyorder.files.json_text import parse_json
from anyorder.stats import Record

LOG = "metrics.jsonl"
_NO_END = 2**63


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
                yield _reading(shown, reading, key, log)
    if not any("validation" in reading for reading in readings):
        raise AnyorderError(f"{log} holds no validation yet: it writes one every run.evaluate_every steps")


def _reading(name: str, said: dict[str, Any], key: str, log: Path) -> Reading:
    try:
        value, error = said[key]["value"], said[key]["standard_error"]
        error = math.nan if error is None else float(error)  # of a single held-out text there is none
        step, tokens = int(said["step"]), int(said["tokens"])
        if not (math.isfinite(value) and 0 <= step < _NO_END and 0 <= tokens < _NO_END):
            raise ValueError(f"a loss of {value} at step {step}, after {tokens} tokens")
        return Reading(name, step, tokens, float(value), error)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise AnyorderError(f"{log} holds a validation that cannot be read ({why}): remove that line") from None


def _readings(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            reading = parse_json(line)
        except json.JSONDecodeError:
            return
        if not isinstance(reading, dict):
            raise AnyorderError(f"{log} is no training log: name the output folder of `anyorder train`")
        yield reading
