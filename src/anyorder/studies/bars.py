"""What a model has to reach before it may be shipped in the package: the bound on held-out texts, and minimal pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.errors import AnyorderError
from anyorder.studies.characters import PerCharacter, paragraphs, per_character
from anyorder.studies.minimal_pairs import ALL, Accuracy, accuracies, read_pairs
from anyorder.tasks.options import ScoreOptions

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM


@dataclass(frozen=True)
class Bar:
    """Nats per character that the any-order bound may have at most on the texts of a file.

    Attributes:
        name: what they are called on the card.
        file: below the data folder.
        held_out: the share of the file's last documents that was not trained on; None: no part of it was.
        at_most: the bar.
    """

    name: str
    file: str
    held_out: float | None
    at_most: float


BARS = (
    Bar("simple stories (last 1 %)", "simple/stories.txt.xz", 0.01, 0.92),
    Bar("everyday sentences (last 1 %)", "simple/everyday.txt.xz", 0.01, 1.08),
    Bar("SNLI test captions", "snli/sentences.test.txt.xz", None, 1.20),
    Bar("books (last 1 %)", "corpus/books.txt.xz", 0.01, 1.28),
    Bar("XSum summaries", "xsum/summaries.txt.xz", None, 1.45),
)
PAIRS, PAIRS_AT_LEAST = "blimp/*.jsonl.xz", 0.70


@dataclass(frozen=True)
class Measured:
    """A model beside the bars."""

    bars: tuple[Bar, ...]
    rows: tuple[PerCharacter, ...]  # one per bar
    pairs: tuple[Accuracy, ...]  # pll accuracy by paradigm, over all at the end

    @property
    def short(self) -> list[str]:
        """Where the model falls short of its bars, in words."""
        missed = [
            f"{bar.name}: {row.nats_per_character:.3f} nats per character, at most {bar.at_most}"
            for bar, row in zip(self.bars, self.rows, strict=True)
            if row.nats_per_character > bar.at_most
        ]
        overall = self.pairs[-1]
        if overall.accuracy < PAIRS_AT_LEAST:
            missed.append(f"minimal pairs: {overall.accuracy:.1%}, at least {PAIRS_AT_LEAST:.0%}")
        return missed

    def table(self) -> str:
        """The figures as a Markdown table."""
        lines = ["| held-out text | nats per character (95 % interval) | texts | bar |", "|---|---|---|---|"]
        for bar, row in zip(self.bars, self.rows, strict=True):
            figure = f"{row.nats_per_character:.3f} ({row.low:.3f} to {row.high:.3f})"
            lines.append(f"| {bar.name} | {figure} | {row.texts} | {bar.at_most:.2f} |")
        overall, count = self.pairs[-1], len({row.paradigm for row in self.pairs} - {ALL})
        accuracy = f"{overall.accuracy:.1%} ({overall.low:.1%} to {overall.high:.1%}) by pll"
        lines.append(f"| BLiMP, {count} sets | {accuracy} | {overall.pairs} pairs | {PAIRS_AT_LEAST:.0%} |")
        return "\n".join(lines)


def measure(
    lm: MaskedLM, data_dir: Path, bars: Sequence[Bar] = BARS, limit: int = 400, pairs_limit: int | None = None
) -> Measured:
    """The figures of ``lm`` on at most ``limit`` texts of each file and ``pairs_limit`` pairs of each set."""
    rows = [
        per_character(lm, bar.name, paragraphs(data_dir / bar.file, bar.held_out, limit), samples=16) for bar in bars
    ]
    files = sorted(data_dir.glob(PAIRS))
    if not files:
        raise AnyorderError(f"no minimal pairs at {data_dir / PAIRS}: give the folder that holds them with --data-dir")
    pairs = [pair for file in files for pair in read_pairs(str(file), pairs_limit)]
    return Measured(tuple(bars), tuple(rows), tuple(accuracies(lm, pairs, [ScoreOptions("pll")])))
