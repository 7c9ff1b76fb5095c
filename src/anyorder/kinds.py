"""Options of the right type: Python and JSON offer any, and what computes with them raises whatever it happens to."""

from __future__ import annotations

import math
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from anyorder.errors import AnyorderError

# The types that are checked, and what each is called; an option of any other type takes all but numbers.
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_FITS: dict[type, tuple[type, ...]] = {bool: (bool,), int: (Integral,), float: (Real,), str: (str,)}


@cache
def kinds_of(options: type) -> dict[str, tuple[Any, ...]]:
    """The types of every field, those of a union one by one."""
    hints = get_type_hints(options)
    return {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}


def check_kind(name: str, value: Any, kinds: tuple[Any, ...]) -> None:
    """Refuse a value that is of none of the types ``kinds``, or a number that is not finite."""
    if not _fits(value, kinds):
        wanted = " or ".join(_NAMES[kind] for kind in kinds if kind in _NAMES) or "a list"
        raise AnyorderError(f"{name} must be {wanted}, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise AnyorderError(f"{name} must be a finite number, not {value}")


def _fits(value: Any, kinds: tuple[Any, ...]) -> bool:
    if value is None:
        return NoneType in kinds
    if isinstance(value, bool):  # to Python a whole number, to nobody else
        return bool in kinds
    if any(isinstance(value, _FITS[kind]) for kind in kinds if kind in _FITS):
        return True
    return not isinstance(value, Real) and any(kind not in _FITS and kind is not NoneType for kind in kinds)
