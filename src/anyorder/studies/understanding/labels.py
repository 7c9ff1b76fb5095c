"""A task of GLUE: one or two texts to a label or a score, cut to the model's length and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyorder.errors import AnyorderError
from anyorder.models.task_heads import WithHead, read_classifier
from anyorder.studies.options.understanding import LearningOptions
from anyorder.studies.understanding.outcome import Outcome, constant_baseline
from anyorder.studies.understanding.reading import Data, Example, some
from anyorder.studies.understanding.tasks import Task
from anyorder.studies.understanding.training import Row, answers

LENGTH = 128  # Devlin et al.'s


class Labels:
    """The data of one task of GLUE, and what a model makes of it."""

    def __init__(self, task: Task, data: Data, options: LearningOptions) -> None:
        self.task = task
        self.options = options
        self.note = data.note
        self.train = some(data.train, options.train_limit)
        self.tests = {name: some(examples, options.test_limit) for name, examples in data.tests.items()}

    def load(self, model: str | None) -> WithHead:
        """A checkpoint with this task's head."""
        return read_classifier(model, self.task.names)

    def training_rows(self, ready: WithHead) -> list[Row]:
        """The training set as rows with labels."""
        rows, _ = self._rows(self.train, ready)
        kind = int if self.task.values else float
        return [{**row, "labels": kind(example.label)} for row, example in zip(rows, self.train, strict=True)]

    def outcomes(self, ready: WithHead) -> tuple[list[Outcome], list[dict[str, Any]]]:
        """What the model gives on each test set, and every prediction as a record."""
        found, records = [], []
        for name, examples in self.tests.items():
            rows, cut = self._rows(examples, ready)
            logits = np.stack([one.numpy() for (one,) in answers(ready.model, ready.tokenizer, rows, ["logits"])])
            predicted = logits.argmax(1) if self.task.values else logits[:, 0]
            gold = [example.label for example in examples]
            columns = {"predicted": [float(value) for value in predicted], "gold": gold}
            baseline = constant_baseline(self.task.metrics, [example.label for example in self.train], gold)
            details = {"split": self.note} if self.note else {}
            found.append(Outcome(name, self.task.metrics, columns, baseline, len(self.train), cut, details))
            records += [self._record(name, i, examples[i], row) for i, row in enumerate(logits.tolist())]
        return found, records

    def _record(self, name: str, index: int, example: Example, logits: list[float]) -> dict[str, Any]:
        if not self.task.values:
            return {"set": name, "index": index, "gold": example.label, "predicted": logits[0]}
        names = self.task.names
        said = {"gold": names[int(example.label)], "predicted": names[int(np.argmax(logits))]}
        return {"set": name, "index": index, **said, "logits": logits}

    def _rows(self, examples: Sequence[Example], ready: WithHead) -> tuple[list[Row], int]:
        """Token ids, and how many examples were cut."""
        length = min(self.options.max_length or LENGTH, ready.max_length)
        tokenizer = ready.tokenizer
        if length <= tokenizer.num_special_tokens_to_add(pair=len(self.task.texts) == 2) + 1:
            raise AnyorderError(f"a row of {length} tokens has no room for a text: choose a larger --max-length")
        texts = [[example.texts[i] for example in examples] for i in range(len(self.task.texts))]
        encoded = tokenizer(*texts, truncation="longest_first", max_length=length)
        # A row that is full may have been cut: only these are counted again without a limit.
        full = [i for i, ids in enumerate(encoded["input_ids"]) if len(ids) == length]
        whole = tokenizer(*([part[i] for i in full] for part in texts))["input_ids"] if full else []
        rows = [{key: encoded[key][i] for key in tokenizer.model_input_names} for i in range(len(examples))]
        return rows, sum(len(ids) > length for ids in whole)
