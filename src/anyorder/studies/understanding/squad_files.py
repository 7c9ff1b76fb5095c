"""SQuAD 2.0's questions from its own JSON files, plain, .gz or .xz; split by article."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from anyorder.errors import AnyorderError
from anyorder.files.json_text import parse_json
from anyorder.files.reading import Source
from anyorder.studies.understanding.reading import ENDINGS, folders, split

HELD_OUT = 0.1  # of the articles to learn from: the no-answer threshold is chosen on them


class Question(NamedTuple):
    """A question about a passage; without answers it has none."""

    id: str
    title: str
    text: str
    context: str
    answers: tuple[tuple[str, int], ...]  # (text, its first character in the passage)


@dataclass(frozen=True)
class Questions:
    """To learn from, to choose the threshold on, and to be measured on: of different articles."""

    train: list[Question]
    held_out: list[Question]
    test: list[Question]
    note: str = ""


def read_questions(data_dir: Path, from_dev: float) -> Questions:
    """SQuAD 2.0 in ``data_dir``: ``train-v2.0.json`` and ``dev-v2.0.json``.

    Where the whole training set is not there, a share ``from_dev`` of the dev set's articles is learnt from too, and
    the threshold is chosen on some of these: half of the dev set's questions have no answer, a third of the training
    set's, and of a part of that any share.
    """
    dev = [question for file in find_squad(data_dir, "dev") for question in read_squad(file)]
    files = find_squad(data_dir, "train")
    train = [question for file in files for question in read_squad(file)]
    if not dev:
        raise AnyorderError(f"{data_dir} has no squad2/dev-v2.0.json (or .xz, .gz): put SQuAD 2.0's files there")
    if any(file.name.startswith("train-v2.0.json") for file in files):
        return divided(train, dev)
    more, test = split(dev, from_dev, lambda question: question.title)
    likewise = divided(more, test)
    note = f"no whole training set: {from_dev:.0%} of the dev set's articles too"
    return replace(likewise, train=train + likewise.train, note=note)


def divided(train: list[Question], test: list[Question]) -> Questions:
    """Articles to learn from and those the threshold is chosen on."""
    held_out, rest = split(train, HELD_OUT, lambda question: "threshold " + question.title)
    return Questions(rest, held_out, test)


def find_squad(data_dir: Path, part: str) -> list[Path]:
    """The files of ``train`` or ``dev``."""
    for folder in folders(data_dir):
        if folder == data_dir or folder.name.lower().replace("-", "").startswith("squad"):
            files = sorted(file for end in ENDINGS for file in folder.glob(f"{part}*.json{end}"))
            if files:
                return files
    return []


def read_squad(path: Path) -> list[Question]:
    """The questions of one file.

    Raises:
        AnyorderError: it is not SQuAD's JSON, or an answer does not stand where it says.
    """
    try:
        found = parse_json("\n".join(Source(str(path), format="lines")))
        questions = [
            _question(path, article, paragraph, one)
            for article in found["data"]
            for paragraph in article["paragraphs"]
            for one in paragraph["qas"]
        ]
    except json.JSONDecodeError as error:
        raise AnyorderError(f"{path} is not JSON (line {error.lineno}: {error.msg}): take SQuAD 2.0's file") from None
    except (KeyError, TypeError) as error:
        raise AnyorderError(f"{path} is not a file of SQuAD 2.0 (it lacks {error}): take train-v2.0.json") from None
    if not questions:
        raise AnyorderError(f"{path} holds no questions: take SQuAD 2.0's file")
    return questions


def _question(path: Path, article: Any, paragraph: Any, one: Any) -> Question:
    context = paragraph["context"]
    impossible = one["is_impossible"]  # a file without it is SQuAD 1.1
    answers = () if impossible else tuple((a["text"], int(a["answer_start"])) for a in one["answers"])
    for text, start in answers:
        if context[start : start + len(text)] != text:
            raise AnyorderError(f"{path}: the answer {text[:40]!r} of question {one['id']} is not at {start}: mend it")
    if not impossible and not answers:
        raise AnyorderError(f"{path}: question {one['id']} has neither answers nor is_impossible: mend it")
    return Question(str(one["id"]), str(article["title"]), one["question"], context, answers)
