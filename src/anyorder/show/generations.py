"""Generated texts as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from anyorder.tasks.together import Generation

_DIGITS = 6  # decimals; float32 models have no more to say


def to_json(prompt: str, generations: Sequence[Generation]) -> str:
    """One line: a prompt as ``text``, as in all files of results, and what was written around it."""
    rows = [one.to_dict() for one in generations]
    for row in rows:
        row |= {name: round(row[name], _DIGITS) for name in ("log_prob", "price") if row[name] is not None}
    return json.dumps({"text": prompt, "generations": rows}, ensure_ascii=False)
