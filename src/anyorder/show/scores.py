"""Scores as lines of JSONL or TSV."""

from __future__ import annotations

import json

from anyorder.tasks.score import Score

COLUMNS = ("log_prob", "standard_error", "tokens", "text")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_DIGITS = 6  # decimals; float32 models have no more to say


def to_json(score: Score) -> str:
    """One line of JSONL."""
    row = score.to_dict()
    row["log_prob"], row["standard_error"] = round(score.log_prob, _DIGITS), round(score.standard_error, _DIGITS)
    for term in row.get("per_token", []):
        term["log_prob"] = round(term["log_prob"], _DIGITS)
    return json.dumps(row, ensure_ascii=False)


def to_tsv(score: Score) -> str:
    """One line of TSV; with ``per_token`` a last column ``token:value …``."""
    cells = [f"{score.log_prob:.{_DIGITS}f}", f"{score.standard_error:.{_DIGITS}f}", str(score.tokens)]
    cells.append(score.text.translate(_ESCAPES))
    if score.per_token is not None:
        cells.append(" ".join(f"{token.translate(_ESCAPES)}:{value:.4f}" for token, value in score.per_token))
    return "\t".join(cells)


def tsv_header(per_token: bool) -> str:
    """The names of the columns."""
    return "\t".join((*COLUMNS, *(["per_token"] if per_token else [])))


def same_json(line: str, text: str) -> bool:
    """Whether a line of JSONL is the score of ``text``."""
    try:
        return bool(json.loads(line)["text"] == text)
    except (json.JSONDecodeError, KeyError, TypeError):
        return False


def same_tsv(line: str, text: str) -> bool:
    """Whether a line of TSV is the score of ``text``."""
    return line.rstrip("\n").split("\t")[3:4] == [text.translate(_ESCAPES)]
