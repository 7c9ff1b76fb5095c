"""u-PMLM-R* (Liao et al., section 4.3; Liu et al. 2019): one encoder learns all tasks, one head per task.

Each batch is of one task and reaches that task's head; the encoder under all heads is the same object. What comes out
is one checkpoint per task, encoder and head, for that task to be fine-tuned alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anyorder.files.disk import atomically
from anyorder.models.task_heads import WithHead
from anyorder.studies.options.understanding import LearningOptions
from anyorder.studies.understanding.labels import Labels
from anyorder.studies.understanding.spans import Spans
from anyorder.studies.understanding.training import TASK, Report, fit

Jobs = Mapping[str, Labels | Spans]


class SharedEncoder(nn.Module):
    """Models of several tasks with one encoder between them."""

    def __init__(self, heads: Mapping[str, Any]) -> None:
        super().__init__()
        # The first one's: a head for spans has an encoder without a pooler, so classes come first.
        first, *others = sorted(heads.values(), key=lambda model: "QuestionAnswering" in type(model).__name__)
        for model in others:
            setattr(model, model.base_model_prefix, first.base_model)
        self.heads = nn.ModuleDict(dict(heads))

    def forward(self, task: str, **inputs: Any) -> Any:
        """The answer of one task's head."""
        return self.heads[task](**inputs)


def load_shared(jobs: Jobs, model: str | None, seed: int) -> tuple[SharedEncoder, dict[str, WithHead]]:
    """The checkpoint with a new head for each task."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ready = {task: job.load(model) for task, job in jobs.items()}
    return SharedEncoder({task: one.model for task, one in ready.items()}), ready


def learn_together(
    jobs: Jobs, model: str | None, options: LearningOptions, seed: int, folder: Path, report: Report | None = None
) -> dict[str, Path]:
    """Train all tasks at once and write a checkpoint per task under ``folder``; a finished one is used as it is."""
    places = {task: folder / task for task in jobs}
    if all((place / "config.json").exists() for place in places.values()):
        return places
    shared, ready = load_shared(jobs, model, seed)
    rows = [{**row, TASK: task} for task, job in jobs.items() for row in job.training_rows(ready[task])]
    fit(shared, next(iter(ready.values())).tokenizer, rows, options, seed, report)
    for task, place in places.items():

        def write(temporary: Path, one: WithHead = ready[task]) -> None:
            one.model.save_pretrained(temporary)
            one.tokenizer.save_pretrained(temporary)

        atomically(place, write)
    return places
