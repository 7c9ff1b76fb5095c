"""What the options of several studies share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from anyorder.errors import AnyorderError

STEPS = "Numbers of steps, comma-separated."
MODELS = "name=folder of a masked or causal model; may be repeated."


def check_files(files: Iterable[Path]) -> None:
    """Refuse files that are not there, before a model is loaded."""
    for file in files:
        if not file.is_file():
            raise AnyorderError(f"there is no file {file}: check the path")
