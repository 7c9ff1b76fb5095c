"""Options of the study of translation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError, choose
from anyorder.options import Options, option, seed_option, whole_numbers
from anyorder.studies.options.shared import check_files

# The ways to translate that are compared: options of anyorder.tasks.options.TranslateOptions.
WAYS: dict[str, dict[str, Any]] = {
    "refine": {"sampler": "refine"},
    "refine-random": {"sampler": "refine", "start": "random"},
    "refine-repair": {"sampler": "refine", "repair": 2},
    "parallel": {"sampler": "parallel"},
    "parallel-repair": {"sampler": "parallel", "repair": 2},
    "parallel-draw": {"sampler": "parallel", "draw": True},
    "parallel-pairs": {"sampler": "parallel", "pairs": True, "draw": True},
    "gibbs": {"sampler": "gibbs"},
    "adaptive": {"sampler": "adaptive"},
    "adaptive-attention": {"sampler": "adaptive", "influence": "attention"},
    "adaptive-source": {"sampler": "adaptive", "influence": "source"},
}


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(Options):
    """Of :mod:`anyorder.studies.translation`."""

    data: Path = option(..., "Pairs to translate: TSV or JSON lines, plain, .gz or .xz.")
    columns: str = option("1,2", "Source and target, by name or by number from 1, with a comma between.")
    steps: str = option("1,2,4,8", "Numbers of steps, with commas between.", "-k")
    ways: str = option("refine", f"{', '.join(WAYS)}, with commas between.")
    lengths: str = option("1", "How many of the likeliest lengths are tried, such as 1,3,5.")
    baseline: str | None = option(
        None, "A model trained on pairs to compare with, writing left to right; the same model if absent."
    )
    limit: int | None = option(None, "At most this many pairs, evenly spread.", least=1)
    resamples: int = option(1000, "Resamples of the paired bootstrap; 0 for no intervals.", least=0)
    dependence: int = option(
        0,
        "Also measure on this many pairs how target tokens depend on each other, with the source and without.",
        least=0,
    )
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_files([self.data])
        _ = self.numbers, self.beams, self.names, two_columns(self.columns)  # refused before any work

    @property
    def numbers(self) -> list[int]:
        """The numbers of steps."""
        return whole_numbers(self.steps, "steps")

    @property
    def beams(self) -> list[int]:
        """The numbers of lengths."""
        return whole_numbers(self.lengths, "lengths")

    @property
    def names(self) -> list[str]:
        """The ways."""
        return [choose(name.strip(), tuple(WAYS), "way") for name in self.ways.split(",")]


def two_columns(columns: str) -> list[str]:
    """Source and target of ``"1,2"``."""
    found = [name.strip() for name in columns.split(",")]
    if len(found) != 2:
        raise AnyorderError(f"columns are two, source and target, such as 1,2, not {columns!r}")
    return found
