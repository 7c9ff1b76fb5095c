"""The same examples from the hub, by name, with ``datasets``: where there is a network and no folder of files."""

from __future__ import annotations

from typing import Any

from anyorder.errors import AnyorderError
from anyorder.models.fit import first_line
from anyorder.models.hub import offline_if_unreachable
from anyorder.studies.understanding.reading import Data, Example
from anyorder.studies.understanding.squad_files import Question, Questions, divided
from anyorder.studies.understanding.tasks import Task


def _load(*name: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise AnyorderError("data from the hub needs datasets: pip install 'anyorder[train]', or --data-dir") from None
    offline = offline_if_unreachable()
    try:
        return datasets.load_dataset(*name)
    except (OSError, ValueError) as error:
        why = "the hub is not reachable and it is not in the cache" if offline else first_line(error)
        raise AnyorderError(f"cannot get {' '.join(name)} ({why}): name a folder of files with --data-dir") from error


def hub_task(task: Task) -> Data:
    """A task of GLUE; its test set has no labels, so its dev set is measured on."""
    parts = _load("nyu-mll/glue", task.name)

    def examples(part: str) -> list[Example]:
        return [Example(tuple(row[c] for c in task.hub_texts), float(row["label"])) for row in parts[part]]

    if task.name == "mnli":
        tests = {"mnli": examples("validation_matched"), "mnli-mm": examples("validation_mismatched")}
    else:
        tests = {task.name: examples("validation")}
    return Data(examples("train"), tests)


def hub_questions() -> Questions:
    """SQuAD 2.0."""
    parts = _load("rajpurkar/squad_v2")

    def questions(part: str) -> list[Question]:
        return [
            Question(
                row["id"], row["title"], row["question"], row["context"],
                tuple(zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)),
            )
            for row in parts[part]
        ]  # fmt: skip

    return divided(questions("train"), questions("validation"))
