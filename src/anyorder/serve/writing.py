"""Texts generated for several requests at once, told step by step to those who watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyorder.serve.canvas import described, spelt
from anyorder.serve.jobs import Job
from anyorder.serve.turns import Pace
from anyorder.tasks.generate import Plan, generations, plan
from anyorder.tasks.lm import MaskedLM
from anyorder.types import Info


def write(lm: MaskedLM, batch: Sequence[Job], pace: Pace) -> None:
    """Generate the texts of every job and end it with [[a generation per sample] per text]."""
    for job in batch:
        results = []
        for number, text in enumerate(job.texts):
            task = plan(lm, **{**vars(job.options), "prompt": text})
            teller = Teller(job, task, number)

            def watch(task: Plan, state: Any, info: Info, start: int, teller: Teller = teller) -> None:
                pace()
                teller.step(state, info, start)

            results.append([one.to_dict() for one in generations(task, watch)])
            for sample, result in enumerate(results[-1]):
                job.tell({"type": "end", "row": number * task.samples + sample, "result": result})
        job.end(results)


class Teller:
    """Tells one job about the rows of one of its texts; rows are numbered text by text, sample by sample."""

    def __init__(self, job: Job, task: Plan, text: int) -> None:
        self._job, self._task, self._text = job, task, text
        self._steps: dict[int, int] = {}

    def step(self, state: Any, info: Info, start: int) -> None:
        """After every step."""
        if not self._job.watched:
            return
        for i, ids in enumerate(state.tokens.tolist()):
            row = self._text * self._task.samples + start + i
            if row not in self._steps:
                self._begin(row, start + i)
            self._steps[row] += 1
            text = self._task.canvas.layout.render(state.tokens[i], self._task.vocabulary)[0]
            mask = str(self._task.vocabulary.tokenizer.mask_token)
            event = {"type": "state", "row": row, "step": self._steps[row], "text": text.replace(mask, "___")}
            if self._job.extra.get("canvas"):
                event |= {"changed": changed(info, i), "tokens": spelt(self._task.vocabulary, ids), "ids": ids}
            self._job.tell(event)

    def _begin(self, row: int, sample: int) -> None:
        self._steps[row] = 0
        where = self._task.canvas.layout
        event: dict[str, Any] = {"type": "start", "row": row, "input": self._text, "sample": sample}
        if self._job.extra.get("canvas"):
            positions = where.free.nonzero().squeeze(1).tolist()
            event |= {**described(self._task.vocabulary, where.tokens.tolist()), "positions": positions}
        self._job.tell(event)


def changed(info: Info, row: int) -> list[dict[str, Any]]:
    """What one step drew in a row; nothing if it was refused."""
    if info.accepted is not None and not bool(info.accepted[row]):
        return []
    columns = (part[row].tolist() for part in (info.positions, info.tokens, info.log_prob, info.entropy))
    return [
        {"position": p, "id": t, "log_prob": log_prob, "entropy": entropy}
        for p, t, log_prob, entropy in zip(*columns, strict=True)
        if p >= 0
    ]
