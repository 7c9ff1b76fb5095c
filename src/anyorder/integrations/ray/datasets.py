"""Any Ray Dataset with the answers of a task: Ray Data's actor pool over windows of the input."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from anyorder.errors import AnyorderError
from anyorder.files.tables import columns
from anyorder.integrations.ray.cluster import library, share
from anyorder.integrations.ray.worker import WINDOW, Job, Worker
from anyorder.show.answers import answering
from anyorder.tasks.options import LoadOptions

if TYPE_CHECKING:
    import pyarrow
    from ray.data import Dataset

_BLOCK = 4 * 2**20  # bytes: WINDOW texts of 16,000 characters each


def map(
    dataset: Dataset,
    task: str,
    *,
    model: str | None = None,
    column: str = "text",
    workers: int | None = None,
    **options: Any,
) -> Dataset:
    """A Ray Dataset with the answer of a task to every text; lazy, as all of Ray Data.

    Args:
        dataset: Any; its rows keep their order. It is cut anew into blocks of :data:`WINDOW` rows, within which texts
            of like length share the model's batches.
        task: ``score``, ``fill``, ``generate`` or ``translate``.
        model: A Hugging Face name or a folder that every machine can read; the bundled model if None.
        column: Where the texts are. A missing text is an empty one.
        workers: How many, one model each; one per GPU, or one per CPU but one, which reads.
        **options: Those of the task (:mod:`anyorder.tasks.options`), and of reading the model (``device``, ``dtype``).

    Returns:
        The columns of the task's JSON lines, and those of ``dataset`` that they do not replace.
    """
    ray = library()
    from ray.data import ActorPoolStrategy

    kind = answering(task).options
    # mypy cannot see that options are dataclasses, each made one by its own decorator.
    unknown = sorted(set(options) - {one.name for one in (*fields(kind), *fields(LoadOptions))})  # type: ignore[arg-type]
    if unknown:
        raise AnyorderError(f"{task} has no option {unknown[0]!r}: see help(lm.{task})")
    load = {one.name: options.pop(one.name) for one in fields(LoadOptions) if one.name in options}
    job = Job(task, kind(**options), model, LoadOptions(**load))
    names = dataset.columns() or []
    if column not in names:
        raise AnyorderError(f"the dataset has no column {column!r}: choose one of {', '.join(names)} with column=")
    count, needs = share(workers, job.load.device, spare=1)
    if count + 1 > int(ray.cluster_resources().get("CPU", 0)):
        raise AnyorderError(f"{count} workers leave no CPU to read with: give fewer workers, or a larger cluster")
    context = dataset.context  # the dataset's own
    context.execution_options.preserve_order = True
    # Windows are small. Ray reserves what a block may take, and a store smaller than that would wait for ever.
    context.target_max_block_size = min(context.target_max_block_size or _BLOCK, _BLOCK)
    blocks = dataset.repartition(target_num_rows_per_block=WINDOW, strict=True)
    return blocks.map_batches(
        _Blocks,
        fn_constructor_args=(job, column),
        batch_size=WINDOW,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=count),
        **needs,
    )


class _Blocks:
    """A worker over blocks of a Dataset."""

    def __init__(self, job: Job, column: str) -> None:
        self.worker = Worker(job)
        self.column = column

    def __call__(self, block: pyarrow.Table) -> pyarrow.Table:
        """The block with its answers."""
        from pyarrow import Table

        answers = self.worker.answer([text or "" for text in block.column(self.column).to_pylist()], 1)
        if isinstance(answers, str):
            raise AnyorderError(answers)
        rows = [json.loads(line) for line in answers.lines]
        answered = Table.from_pylist(rows, schema=columns(answering(self.worker.job.task).fields))
        for name in block.column_names:
            if name not in answered.column_names:
                answered = answered.append_column(name, block.column(name))
        return answered
