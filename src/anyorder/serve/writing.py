"""Texts generated for several requests at once, told step by step to those who watch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyorder.serve.canvas import described, spelt
from anyorder.serve.completing import completion_plans
from anyorder.serve.jobs import Job
from anyorder.serve.metrics import Metrics
from anyorder.serve.turns import Pace
from anyorder.show.recording import breaks
from anyorder.tasks.generate import plans_of
from anyorder.tasks.lm import MaskedLM
from anyorder.tasks.options import GenerateOptions
from anyorder.tasks.together import Plan, Row, Step, together
from anyorder.types import Info

ROWS = 64  # generated together


def write(lm: MaskedLM, batch: Sequence[Job], pace: Pace, metrics: Metrics) -> None:
    """Generate the texts of every job and end it with [[a generation per sample] per text]."""
    plans: list[Plan] = []
    owners: list[tuple[Job, int]] = []  # whose text a plan is, and which of them
    for job in batch:
        assert isinstance(job.options, GenerateOptions)
        plans += completion_plans(lm, job) if "after" in job.extra else plans_of(lm, job.texts, job.options)
        owners += [(job, number) for number in range(len(job.texts))]
    results: dict[Job, dict[tuple[int, int], Any]] = {job: {} for job in batch}
    begun: set[Job] = set()  # a request of many texts goes through several of these rounds
    for several in together(plans, ROWS):
        jobs = [owners[row.text][0] for row in several.rows]
        tellers = [Teller(*owners[row.text], row) for row in several.rows]
        pace()
        made = torch.zeros(len(several.rows), dtype=torch.long)  # steps of each text
        for step in several.steps(partial(wanted, jobs)):
            for job in set(jobs) - begun:
                metrics.first.observe(time.monotonic() - job.born)
            begun.update(jobs)
            drew = step.info.positions >= 0
            made += drew.any(1)
            metrics.tokens.inc(int(drew[wanted(jobs)].sum()))
            for number, teller in enumerate(tellers):
                teller.step(step, number)
            pace()
        for i, row in enumerate(several.rows):
            job, number = owners[row.text]
            if job.over:  # its rows were not worked on to the end
                continue
            metrics.steps.observe(int(made[i]))
            result = results[job][number, row.sample] = several.generation(i).to_dict()
            if job.extra.get("drawn"):
                result["drawn"] = drawn(row.plan, several.tokens[i], several.log_prob[i])
            job.tell({"type": "end", "row": number * row.plan.samples + row.sample, "result": result})
    for job in batch:
        samples = getattr(job.options, "samples", 1)
        if not job.over:
            job.end([[results[job][number, i] for i in range(samples)] for number in range(len(job.texts))])


def wanted(jobs: Sequence[Job]) -> Tensor:
    """[B] bool: the rows whose job is still waited for."""
    return torch.tensor([not job.over for job in jobs])


class Teller:
    """Tells one job about one of its rows; they are numbered text by text, sample by sample."""

    def __init__(self, job: Job, text: int, row: Row) -> None:
        self._job, self._plan = job, row.plan
        self._row = text * row.plan.samples + row.sample
        self._made = 0
        layout = row.plan.canvas.layout
        event: dict[str, Any] = {"type": "start", "row": self._row, "input": text, "sample": row.sample}
        if job.extra.get("canvas"):
            positions = layout.free.nonzero().squeeze(1).tolist()
            event |= {**described(row.plan.vocabulary, layout.tokens.tolist()), "positions": positions}
            event["breaks"] = breaks(row.plan)
        job.tell(event)

    def step(self, step: Step, number: int) -> None:
        """After every step; ``number`` is that of the row in its batch. A row that was done before is not told of."""
        if not self._job.watched or self._job.over or bool((step.info.positions[number] < 0).all()):
            return
        self._made += 1
        tokens = step.state.tokens[number, : len(self._plan.canvas.layout.tokens)]
        mask = str(self._plan.vocabulary.tokenizer.mask_token)
        event: dict[str, Any] = {"type": "state", "row": self._row, "step": self._made}
        event["text"] = self._plan.text(tokens).replace(mask, "___")
        if self._job.extra.get("canvas"):
            ids = tokens.tolist()
            event |= {"changed": changed(step.info, number), "tokens": spelt(self._plan.vocabulary, ids), "ids": ids}
        self._job.tell(event)


def drawn(plan: Plan, tokens: Tensor, log_prob: Tensor) -> list[dict[str, Any]]:
    """The generated tokens of a finished row [N], in reading order, with log q of each when it was drawn."""
    spelling = spelt(plan.vocabulary, tokens.tolist())
    places = plan.canvas.layout.free.nonzero().squeeze(1).tolist()
    return [{"token": spelling[p] or "", "log_prob": float(log_prob[p])} for p in places]


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
