"""Whether a run may go on with another recipe: only if every step done so far would have been the same."""

from __future__ import annotations

import dataclasses
from typing import Any

from anyorder.training.optim import rate
from anyorder.training.recipe import ObjectiveRecipe, Recipe

_SCHEDULE = ("steps", "warmup", "schedule", "starts", "decay")  # what decides the rate of each step
_READING = ("ordered", "ordered_from", "order")  # what decides which texts are read in order


def differences(one: Recipe, other: Recipe, done: int) -> list[str]:
    """The settings that decide the result and differ, as ``key: a -> b``; `run` and `output` do not decide it.

    Nor is it a difference if the rates, or the share of texts read in order, part only after the ``done`` steps of
    ``one``: a run at its full rate may be made longer or shorter, and a finished one may start its schedule again.
    """
    if all(rate(one.optim, step) == rate(other.optim, step) for step in range(done)):
        one = dataclasses.replace(one, optim=_with(one.optim, other.optim, _SCHEDULE))
    if _same_reading(one.objective, other.objective, done):
        one = dataclasses.replace(one, objective=_with(one.objective, other.objective, _READING))
    a, b = _flat(one.to_dict()), _flat(other.to_dict())
    found = [f"{k}: {a[k]} -> {b[k]}" for k in a if a[k] != b[k] and not k.startswith(("run.", "output"))]
    return found or [f"optim.steps: {other.optim.steps}, but {done} are done"] * (other.optim.steps < done)


def _same_reading(one: ObjectiveRecipe, other: ObjectiveRecipe, done: int) -> bool:
    steps = (step for step in (0, one.ordered_from, other.ordered_from) if step < done)  # where either may change
    same = one.order == other.order
    return all(one.ordered_at(s) == other.ordered_at(s) and (same or not one.ordered_at(s)) for s in steps)


def _with(one: Any, other: Any, keys: tuple[str, ...]) -> Any:
    return dataclasses.replace(one, **{key: getattr(other, key) for key in keys})


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in values.items():
        result |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return result
