"""What a worker does: it reads the model once and answers windows of texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anyorder.errors import AnyorderError
from anyorder.integrations.ray.cluster import library
from anyorder.options import Options
from anyorder.show.answers import Answers, answering
from anyorder.tasks.options import LoadOptions

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

WINDOW = 256  # texts answered together, as by the commands


@dataclass(frozen=True)
class Job:
    """All that decides the answers.

    Attributes:
        task: one of :data:`anyorder.show.answers.ANSWERING`.
        options: of the task.
        model: a Hugging Face name or a folder that every machine can read; the bundled model if None.
        load: how the model is read.
        tsv: lines of TSV instead of JSON (of scores).
    """

    task: str
    options: Options
    model: str | None = None
    load: LoadOptions = LoadOptions()
    tsv: bool = False


class Worker:
    """What an actor does: it reads the model once and answers windows. Refusals come back as a sentence."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._lm: MaskedLM | None = None

    def ready(self) -> tuple[str, str | None]:
        """The name of the model, or why it cannot be read."""
        try:
            return self.lm().name, None
        except AnyorderError as error:
            return "", str(error)

    def answer(self, texts: list[str], first: int) -> Answers | str:
        """The answers of a window, or why there are none."""
        job = self.job
        try:
            return answering(job.task).answer(self.lm(), texts, job.options, first, job.tsv, lambda _: None)
        except AnyorderError as error:
            return str(error)

    def lm(self) -> MaskedLM:
        """The model, read when it is first needed; on the GPU that Ray has given this actor, if any."""
        import anyorder
        from anyorder.models.lean import lean

        if self._lm is None:
            load, ray = self.job.load, library()
            if load.device is None and ray.is_initialized() and ray.get_gpu_ids():
                load = replace(load, device="cuda")  # Ray shows an actor its own GPU only
            with lean(not load.trust_remote_code):
                self._lm = anyorder.load(self.job.model, **load.keywords)
        return self._lm
