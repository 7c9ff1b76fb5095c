"""Completions as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from anyorder.tasks.fill import Completion

_DIGITS = 6  # decimals; float32 models have no more to say


def to_json(text: str, completions: Sequence[Completion]) -> str:
    """One line: a text with its blanks, and what fills them, best first."""
    rows = [completion.to_dict() for completion in completions]
    for row in rows:
        row |= {name: round(row[name], _DIGITS) for name in ("log_prob", "length_log_prob") if name in row}
    return json.dumps({"text": text, "completions": rows}, ensure_ascii=False)
