"""Every kind of input, and how many of each make a round."""

from __future__ import annotations

from typing import Any

from campaign import commands, inputs, leftovers, recipes, tampered
from campaign.inputs import Kind

EXAMPLES = 100  # inputs per seed of a kind: a checkpoint takes some twenty milliseconds to load
# More where an input is cheaper, and where strangers' inputs arrive.
MORE = {"texts and templates": 8000, "HTTP bodies": 1200, "files": 600, "options": 200, "recipes": 200}


def kinds(client: Any) -> dict[str, Kind]:
    """All kinds of inputs; the working directory is a :func:`campaign.place.place`."""
    return {**inputs.kinds(client), **commands.kinds(), **recipes.kinds(), **tampered.kinds(), **leftovers.kinds()}


def examples(name: str) -> int:
    """Inputs per seed of the kind ``name``."""
    return MORE.get(name, EXAMPLES)
