"""Mutants: what was made is changed once more, in microseconds where hypothesis takes milliseconds to make it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from campaign.mutate import BLANKS, NUMBERS, ODD
from tiny import VOCAB

PIECES = [*VOCAB, *BLANKS, *ODD]
VALUES: list[Any] = [None, True, False, -1, 0, 1, 2, 3, 7, 64, 2**31, 2**63, 10**30, 0.0, 0.5, 1.5, 1e-9, 1e300, [], {},
                     float("nan"), float("inf"), *NUMBERS, *BLANKS, *ODD, [[]], {"a": 1}]  # fmt: skip


def text_again(text: str, rng: Random) -> str:
    """One to three words dropped, doubled, replaced, joined or moved."""
    words = text.split(" ")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(words))
        how = rng.randrange(6)
        if how == 0:
            del words[at]
        elif how == 1:
            words[at:at] = [words[at]]
        elif how == 2:
            words[at] = rng.choice(PIECES)
        elif how == 3:
            words[at] += rng.choice(PIECES)
        elif how == 4:
            words.append(words.pop(at))
        else:
            words[at:at] = [rng.choice(PIECES)]
        words = words or [""]
    return " ".join(words)


def json_again(data: bytes, rng: Random) -> bytes:
    """One to three values of a JSON text replaced, or its bytes changed where it is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return bytes_again(data, rng)
    for _ in range(rng.randint(1, 3)):
        found = _value_again(found, rng)
    return json.dumps(found).encode()


def _value_again(value: Any, rng: Random) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.05:
        return text_again(value, rng) if isinstance(value, str) and rng.random() < 0.5 else rng.choice(VALUES)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    if rng.random() < 0.1:
        return {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else [*value, *value]
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = _value_again(value[key], rng)
    return changed


def bytes_again(data: bytes, rng: Random) -> bytes:
    """A bit flipped, a part cut out or doubled, or the end cut off."""
    found = bytearray(data or b"\n")
    at = rng.randrange(len(found))
    end = at + rng.choice([1, 2, 8, 64])
    how = rng.randrange(5)
    if how == 0:
        found[at] ^= 1 << rng.randrange(8)
    elif how == 1:
        del found[at:end]
    elif how == 2:
        found[at:at] = found[at:end]
    elif how == 3:
        found[at:end] = rng.choice(NUMBERS).encode()
    else:
        del found[at:]
    return bytes(found)
