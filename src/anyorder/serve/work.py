"""What is done with a batch of requests: the library's own functions, with texts of several requests as one list."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch

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
from anyorder.tasks.fill import Completion, fill
from anyorder.tasks.joint import described, text_joints
from anyorder.tasks.lm import MaskedLM
from anyorder.tasks.score import score
from anyorder.tasks.translate import translate
from anyorder.text.vocabulary import vocabulary

T = TypeVar("T")


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
            "generate": partial(write, self.lm, pace=pace, metrics=metrics),
            "translate": self._translate,
            "position": self._position,
            "mask": self._mask,
        }

    def warm(self) -> float:
        """Seconds that a token takes on its way through the model. What is made only once is made here."""
        model, words = self.lm.conditionals, vocabulary(self.lm.tokenizer, self.lm.conditionals.vocab_size)
        length = min(16, self.lm.max_length)
        some = (~words.special).nonzero().flatten()[: 8 * length]
        tokens = some[torch.arange(8 * length) % len(some)].view(8, length)
        tokens[:, 1] = model.mask_id
        seconds = []
        for _ in range(3):
            start = time.monotonic()
            model(tokens, torch.ones((8, 1), dtype=torch.long))
            seconds.append(time.monotonic() - start)
        return min(seconds) / tokens.numel()  # whatever else kept the processor busy would refuse requests later

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

        def ask(texts: str | list[str]) -> list[list[Completion]]:
            if isinstance(texts, str):
                return [fill(self.lm, texts, options, progress=self._pace)]
            return fill(self.lm, texts, options, progress=self._pace)

        for job, best in answered(batch, ask):
            self._metrics.tokens.inc(sum(len(several[0].fills) for several in best if several))
            results: list[dict[str, Any]] = [{"completions": [one.to_dict() for one in several]} for several in best]
            if job.extra.get("alone"):
                for result, text in zip(results, job.texts, strict=True):
                    result["alone"] = alone(self.lm, str(text), options) if text and text.strip() else None
            job.end(results)

    def _translate(self, batch: Sequence[Job]) -> None:
        options: Any = batch[0].options
        for job, found in answered(batch, lambda texts: translate(self.lm, texts, options)):
            self._metrics.tokens.inc(sum(len(one.tokens) for one in found))
            job.end([one.to_dict() for one in found])

    def _score(self, batch: Sequence[Job]) -> None:
        options: Any = batch[0].options
        scores = iter(score(self.lm, texts_of(batch), options, progress=self._pace))
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

    def _mask(self, batch: Sequence[Job]) -> None:
        options: Any = batch[0].options
        found = iter(fill_masks(self.lm, texts_of(batch), options, **batch[0].extra))
        for job in batch:
            job.end([next(found) for _ in job.texts])

    def _position(self, batch: Sequence[Job]) -> None:
        for job in batch:
            job.end(position(self.lm, job.texts[0], **job.extra))


def answered(batch: Sequence[Job], ask: Callable[[str | list[str]], list[T]]) -> Iterator[tuple[Job, list[T]]]:
    """Each job with an answer per text. ``ask`` gets the texts of all as one list.

    A text that came alone goes as itself if it is the only one, so that errors do not number it, or if it is empty,
    which only a list may hold.
    """
    listed = [job for job in batch if not job.single or (len(batch) > 1 and str(job.texts[0]).strip())]
    found = iter(ask(texts_of(listed)) if listed else [])
    for job in batch:
        yield job, [next(found) for _ in job.texts] if job in listed else ask(str(job.texts[0]))


def texts_of(jobs: Sequence[Job]) -> list[str]:
    """Of all jobs, as one list."""
    return [str(text) for job in jobs for text in job.texts]
