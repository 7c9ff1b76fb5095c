"""Scores as lines of TSV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyorder.tasks.options import ScoreOptions

if TYPE_CHECKING:
    from anyorder.tasks.score import Score

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"} | {
    chr(n): f"\\x{n:02x}" for n in (*range(9), 11, 12, *range(14, 32), *range(127, 160))
})  # fmt: skip
DIGITS = 6  # decimals in files of results; float32 models have no more to say


@dataclass(frozen=True)
class Tsv:
    """Lines of TSV: a standard error where there is one, with ``per_token`` a last column ``token:value …``."""

    options: ScoreOptions

    @property
    def header(self) -> str:
        """The names of the columns."""
        error, shares = self.options.estimated, self.options.per_token
        names = ["log_prob", *["standard_error"] * error, "tokens", "text", *["per_token"] * shares]
        return "\t".join(names)

    def line(self, score: Score) -> str:
        """One score."""
        cells = [f"{score.log_prob:.{DIGITS}f}", str(score.tokens), score.text.translate(_ESCAPES)]
        if self.options.estimated:
            cells.insert(1, f"{score.standard_error:.{DIGITS}f}")
        if score.per_token is not None:
            cells.append(" ".join(f"{token.translate(_ESCAPES)}:{value:.4f}" for token, value in score.per_token))
        return "\t".join(cells)

    def same(self, line: str, text: str) -> bool:
        """Whether a line is the score of ``text``."""
        at = self.header.split("\t").index("text")
        return line.rstrip("\n").split("\t")[at : at + 1] == [text.translate(_ESCAPES)]
