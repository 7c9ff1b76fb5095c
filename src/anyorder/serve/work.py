"""What is done with a batch of requests: the library's own functions, with texts of several requests as one list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from anyorder.conditionals.mlm import ModelConditionals
from anyorder.errors import AnyorderError
from anyorder.serve.fill_mask import fill_masks
from anyorder.serve.heat import heat
from anyorder.serve.jobs import Job
from anyorder.serve.metrics import Metrics
from anyorder.serve.positions import position
from anyorder.serve.turns import Pace, Paced
from anyorder.serve.writing import write
from anyorder.tasks.alone import alone
from anyorder.tasks.fill import fill
from anyorder.tasks.joint import described, text_joints
from anyorder.tasks.lm import MaskedLM
from anyorder.tasks.score import score


class Worker:
    """Does a batch: every job in it is ended or failed when it returns."""

    def __init__(self, lm: MaskedLM, pace: Pace, metrics: Metrics) -> None:
        assert isinstance(lm.conditionals, ModelConditionals)
        self.lm = replace(lm, conditionals=Paced(lm.conditionals, pace))
        self._pace = pace
        self._metrics = metrics
        self._kinds: dict[str, Callable[[Sequence[Job]], None]] = {
            "fill": self._fill,
            "score": self._score,
            "joint": self._joint,
            "generate": self._generate,
            "position": self._position,
            "mask": self._mask,
        }

    def __call__(self, batch: Sequence[Job]) -> None:
        """All jobs of a batch have one kind and one key."""
        work = self._kinds[batch[0].kind]
        self._metrics.batch.labels(batch[0].kind).observe(len(batch))
        try:
            work(batch)
        except AnyorderError as error:
            if len(batch) == 1:
                batch[0].fail(error)
                return
            # One unusable text must not cost the others theirs.
            for job in batch:
                if not job.over:
                    self([job])

    def _fill(self, batch: Sequence[Job]) -> None:
        options: Any = batch[0].options
        alike = [job for job in batch if not job.single]
        if len(batch) > 1 and all(text and text.strip() for job in batch for text in job.texts):
            alike = list(batch)
        found = iter(fill(self.lm, [str(text) for job in alike for text in job.texts], options, progress=self._pace))
        for job in batch:
            best = (
                [next(found) for _ in job.texts]
                if job in alike
                else [fill(self.lm, str(job.texts[0]), options, progress=self._pace)]
            )
            self._metrics.tokens.inc(sum(len(several[0].fills) for several in best if several))
            results: list[dict[str, Any]] = [{"completions": [one.to_dict() for one in several]} for several in best]
            if job.extra.get("alone"):
                for result, text in zip(results, job.texts, strict=True):
                    result["alone"] = alone(self.lm, str(text), options) if text and text.strip() else None
            job.end(results)

    def _score(self, batch: Sequence[Job]) -> None:
        options: Any = batch[0].options
        texts = [str(text) for job in batch for text in job.texts]
        scores = iter(score(self.lm, texts, options, progress=self._pace))
        for job in batch:
            job.end([next(scores).to_dict() for _ in job.texts])

    def _joint(self, batch: Sequence[Job]) -> None:
        for job in batch:
            options: Any = job.options
            text = str(job.texts[0])
            # The product beside every other, so that where they differ can be shown.
            names = dict.fromkeys((*options.methods, "mlm"))
            joints = text_joints(self.lm, text, tuple(names), options, report=self._pace)
            job.end({**described(self.lm, text, joints, options), "heat": heat(joints, job.extra["cells"])})

    def _generate(self, batch: Sequence[Job]) -> None:
        write(self.lm, batch, self._pace, self._metrics)

    def _mask(self, batch: Sequence[Job]) -> None:
        options: Any = batch[0].options
        texts = [str(text) for job in batch for text in job.texts]
        found = iter(fill_masks(self.lm, texts, options, **batch[0].extra))
        for job in batch:
            job.end([next(found) for _ in job.texts])

    def _position(self, batch: Sequence[Job]) -> None:
        for job in batch:
            job.end(position(self.lm, job.texts[0], **job.extra))
