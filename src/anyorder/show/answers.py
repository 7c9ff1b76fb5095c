"""The tasks that answer many texts, by name: their options, and their answers as lines of a file.

One definition for the commands over files and for :mod:`anyorder.integrations.ray`, so that both write the same bytes.
Every line of JSON holds the input as ``text``. Nothing heavy is imported before there is work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyorder.errors import AnyorderError, choose
from anyorder.files.journal import Form
from anyorder.files.tables import check_arrow, column_texts, write_table
from anyorder.options import Options
from anyorder.show.printable import printable
from anyorder.show.scores import DIGITS, Tsv
from anyorder.stats import to_json
from anyorder.tasks.options import FillOptions, GenerateOptions, ScoreOptions, TranslateOptions

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM
    from anyorder.tasks.translate import Translation

Tell = Callable[[int], None]


class Answers(NamedTuple):
    """The lines of some texts, one each."""

    lines: list[str]
    long: int = 0  # texts that were longer than the model


@dataclass(frozen=True)
class Answering:
    """How a task answers many texts.

    Attributes:
        doing: what is done, for a progress bar.
        options: what a user may set.
        answer: (model, texts, options, number of the first text, lines of TSV, tell) -> their lines.
        plain: the answer to one text as a text, from its line; None if it is a number.
        fields: what a line holds, as :func:`anyorder.files.tables.columns` reads it.
    """

    doing: str
    options: type[Options]
    answer: Callable[[MaskedLM, list[str], Any, int, bool, Tell], Answers]
    plain: Callable[[dict[str, Any]], str] | None
    fields: dict[str, Any]


def _score(lm: MaskedLM, texts: list[str], options: ScoreOptions, first: int, tsv: bool, tell: Tell) -> Answers:
    from anyorder.tasks.score import score

    scores = score(lm, texts, options, first=first, progress=tell)
    lines = [Tsv(options).line(one) if tsv else _line(one.to_dict()) for one in scores]
    return Answers(lines, sum(one.windows > 1 for one in scores))


def _fill(lm: MaskedLM, texts: list[str], options: FillOptions, first: int, *_: Any) -> Answers:
    from anyorder.tasks.fill import fill

    return _several("completions", texts, fill(lm, texts, options, first=first))


def _generate(lm: MaskedLM, texts: list[str], options: GenerateOptions, first: int, *_: Any) -> Answers:
    from anyorder.tasks.generate import generate

    return _several("generations", texts, generate(lm, texts, options, first=first))


def _translate(lm: MaskedLM, texts: list[str], options: TranslateOptions, first: int, *_: Any) -> Answers:
    from anyorder.tasks.translate import translate

    return Answers([translation_line(one) for one in translate(lm, texts, options, first)])


def translation_line(one: Translation) -> str:
    """A line of JSON: the source is the ``text``, as in all files of results."""
    found = one.to_dict()
    return _line({"text": found.pop("source"), "translation": found.pop("text"), **found})


def _several(name: str, texts: list[str], found: Sequence[Sequence[Any]]) -> Answers:
    """A line for each text with its answers, best first, as ``name``."""
    rows = zip(texts, found, strict=True)
    return Answers([_line({"text": text, name: [one.to_dict() for one in several]}) for text, several in rows])


def _line(row: dict[str, Any]) -> str:
    return json.dumps(_rounded(to_json(row)), ensure_ascii=False)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def _best(name: str, row: dict[str, Any]) -> str:
    """The text of the first of several answers; empty if there is none."""
    return row[name][0]["text"] if row[name] else ""


_TOKEN = {"token": "string", "log_prob": "float64"}
_COMPLETION = {"text": "string", "log_prob": "float64", "fills": ["string"], "length_log_prob": "float64"}
_GENERATION = {"text": "string", "tokens": ["int64"], "log_prob": "float64", "passes": "int64", "reading": "string",
               "price": "float64"}  # fmt: skip

ANSWERING = {
    "score": Answering("scoring", ScoreOptions, _score, None, {
        "text": "string", "method": "string", "log_prob": "float64", "standard_error": "float64", "tokens": "int64",
        "windows": "int64", "reading": "string", "per_token": [_TOKEN],
    }),
    "fill": Answering("filling", FillOptions, _fill, partial(_best, "completions"), {
        "text": "string", "completions": [_COMPLETION],
    }),
    "generate": Answering("generating", GenerateOptions, _generate, partial(_best, "generations"), {
        "text": "string", "generations": [_GENERATION],
    }),
    "translate": Answering("translating", TranslateOptions, _translate, lambda row: row["translation"], {
        "text": "string", "translation": "string", "tokens": ["int64"], "log_prob": "float64",
        "length_log_prob": "float64", "passes": "int64", "states": ["string"], "others": ["string"],
        "score": "float64",
    }),
}  # fmt: skip


def answering(task: str) -> Answering:
    """A task by its name."""
    return ANSWERING[choose(task, tuple(ANSWERING), "task")]


def form_of(task: str, path: Path | None) -> Form | None:
    """What the lines of a file become by its name: a table (``.parquet``) or the best texts alone (``.txt``)."""
    suffix = None if path is None else path.suffix
    if suffix == ".parquet":
        check_arrow()
        return Form(
            lambda lines, result: write_table(lines, result, answering(task).fields),
            lambda result: column_texts(str(result), "text"),
        )
    if suffix != ".txt":
        return None
    plain = answering(task).plain
    if plain is None:
        raise AnyorderError(f"{task} answers with numbers: name the output .tsv, .jsonl or .parquet")
    return Form(partial(_write_texts, plain), _unknown)


def _write_texts(plain: Callable[[dict[str, Any]], str], lines: Path, result: Path) -> None:
    draft = result.with_name(result.name + ".new")
    with lines.open(encoding="utf-8") as file, draft.open("w", encoding="utf-8", newline="\n") as out:
        for line in file:
            out.write(printable(plain(json.loads(line)), keep="\t") + "\n")
    draft.replace(result)


def _unknown(result: Path) -> Iterator[None]:
    """A file of texts does not say what they answer, only how many there are."""
    with result.open(encoding="utf-8", newline="\n") as file:
        for _ in file:
            yield None
