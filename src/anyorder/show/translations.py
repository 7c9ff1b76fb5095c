"""Translations as lines of JSON."""

from __future__ import annotations

import json

from anyorder.tasks.translate import Translation

_DIGITS = 6  # decimals; float32 models have no more to say


def to_json(one: Translation) -> str:
    """One line: the source as ``text``, as in all files of results, and its ``translation``."""
    found = one.to_dict()
    row = {"text": found.pop("source"), "translation": found.pop("text")}
    rounded = {name: round(value, _DIGITS) if isinstance(value, float) else value for name, value in found.items()}
    return json.dumps({**row, **rounded}, ensure_ascii=False)
