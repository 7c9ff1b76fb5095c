"""One model, one task, one seed: fine-tune, measure, and write a checkpoint that ``from_pretrained`` reads."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from anyorder.errors import AnyorderError, choose
from anyorder.files.disk import atomically
from anyorder.metrics.bootstrap import bootstrap
from anyorder.models.load import usable_device
from anyorder.models.task_heads import WithHead
from anyorder.stats import to_json
from anyorder.studies.options.understanding import LearningOptions
from anyorder.studies.understanding.hub_data import hub_questions, hub_task
from anyorder.studies.understanding.labels import Labels
from anyorder.studies.understanding.outcome import Outcome
from anyorder.studies.understanding.reading import read_task
from anyorder.studies.understanding.spans import Spans
from anyorder.studies.understanding.squad_files import read_questions
from anyorder.studies.understanding.tasks import GLUE, NAMES, SQUAD
from anyorder.studies.understanding.training import Report, fit


def read_job(task: str, options: LearningOptions) -> Labels | Spans:
    """The data of a task, from the folder of the options, or from the hub."""
    choose(task, NAMES, "task")
    if find_spec("accelerate") is None:  # which transformers' Trainer asks for, after all has been read
        raise AnyorderError("fine-tuning needs accelerate: pip install 'anyorder[understand]'")
    if options.device is not None:
        usable_device(options.device)
    folder, share = options.data_dir, options.from_dev
    if task == SQUAD:
        return Spans(hub_questions() if folder is None else read_questions(folder, share), options)
    glue = GLUE[task]
    return Labels(glue, hub_task(glue) if folder is None else read_task(glue, folder, share), options)


@dataclass(frozen=True)
class Learned:
    """A fine-tuned model and what it gives on the test sets."""

    ready: WithHead
    outcomes: list[Outcome]
    predictions: list[dict[str, Any]]
    seconds: float

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """Each metric in percent, with its 95 % interval over the examples and the baseline beside."""
        return [
            {
                "task": outcome.task,
                "metric": metric,
                **bootstrap([outcome.statistic(metric)], outcome.examples).to_dict(),
                "baseline": outcome.baseline[metric],
                "examples": outcome.examples,
                "train": outcome.train,
                "cut": outcome.cut,
                **outcome.details,
            }
            for outcome in self.outcomes
            for metric in outcome.metrics
        ]

    def save(self, folder: Path, settings: dict[str, Any]) -> None:
        """A checkpoint, ``predictions.jsonl`` and ``metrics.json`` in ``folder``, whole or not at all."""

        def write(place: Path) -> None:
            self.ready.model.save_pretrained(place)
            self.ready.tokenizer.save_pretrained(place)
            lines = [json.dumps(to_json(one), ensure_ascii=False) for one in self.predictions]
            (place / "predictions.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            said = to_json({"rows": self.metrics, "settings": settings})
            (place / "metrics.json").write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")

        atomically(folder, write)


def learn(
    job: Labels | Spans, model: str | None, options: LearningOptions, seed: int, report: Report | None = None
) -> Learned:
    """Fine-tune ``model`` (a name, a folder, the bundled one if None) and measure it.

    The new head is drawn from torch's global generator, seeded meanwhile: the result depends on ``seed`` alone.
    """
    began = time.perf_counter()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ready = job.load(model)
    fit(ready.model, ready.tokenizer, job.training_rows(ready), options, seed, report)
    outcomes, predictions = job.outcomes(ready)
    return Learned(ready, outcomes, predictions, time.perf_counter() - began)
