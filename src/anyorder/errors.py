"""The one exception our users see: a sentence that says what is wrong and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AnyorderError(Exception):
    """Bad input or an unusable checkpoint. The message is one line and names the remedy.

    The command line prints it as it is and exits with status 2; a library user catches it by name.
    """


def choose(name: str, options: Iterable[str], what: str, also: str = "") -> str:
    """``name`` if it is one of ``options``; else an error that suggests the nearest one.

    Args:
        name: What the user wrote.
        options: What it may be.
        what: What it names, as in "unknown sampler".
        also: What else would have been possible, to end the sentence.
    """
    known = list(options)
    if name in known:
        return name
    raise AnyorderError(f"unknown {what} {name!r}: {did_you_mean(name, known)}choose one of {', '.join(known)}{also}")


def did_you_mean(name: str, options: Iterable[str], prefix: str = "") -> str:
    """A question that names the nearest of ``options`` (with what stands before it), or nothing if none is near."""
    near = difflib.get_close_matches(str(name), list(options), n=1)
    return f"did you mean {prefix + near[0]!r}? " if near else ""


def count(number: int, noun: str) -> str:
    """``1 text``, ``2 texts``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
