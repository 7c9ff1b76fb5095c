"""Run the command line in this process."""

from __future__ import annotations

import sys
from typing import Any

from anyorder.cli import main


def anyorder(monkeypatch: Any, capsys: Any, *arguments: str) -> tuple[int, str, str]:
    """(status, stdout, stderr) of ``anyorder arguments...``."""
    monkeypatch.setattr(sys, "argv", ["anyorder", *arguments])
    try:
        main()
        status = 0
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    return status, out, err
