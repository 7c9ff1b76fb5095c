"""Fine-tuning with ``transformers.Trainer`` and BERT's settings (Devlin et al. 2019, appendix A.3).

AdamW, a rate that rises over the first tenth of the steps and falls to zero, weight decay 0.01. Only the batches are
ours: rows of similar length together, padded to the longest of the batch.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import (
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from anyorder.errors import AnyorderError
from anyorder.models.products import faster
from anyorder.studies.options.understanding import LearningOptions
from anyorder.studies.understanding.batches import SimilarBatches

Row = dict[str, Any]
Report = Callable[[int, int], None]  # steps done, steps in all
TASK = "task"  # in a row: which head it is for
WARMUP, DECAY = 0.1, 0.01


class Collator:
    """Rows to one padded batch; the task they share stays a word."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.pad = DataCollatorWithPadding(tokenizer)

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        """All rows are of one task, or of none."""
        batch = dict(self.pad([{k: v for k, v in row.items() if k != TASK} for row in rows]))
        return batch | {TASK: rows[0][TASK]} if TASK in rows[0] else batch


class _GroupedTrainer(Trainer):
    """Trainer, with our batches."""

    def __init__(self, *args: Any, batches: SimilarBatches, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.batches = batches

    def get_train_dataloader(self) -> DataLoader[Any]:
        rows: Any = self.train_dataset
        loader: DataLoader[Any] = DataLoader(rows, batch_sampler=self.batches, collate_fn=self.data_collator)
        return self.accelerator.prepare(loader)


class _Progress(TrainerCallback):
    """Reports every step."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.report(state.global_step, state.max_steps)


def fit(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    options: LearningOptions,
    seed: int,
    report: Report | None = None,
) -> None:
    """Train ``model`` on ``rows`` in place; it ends in eval mode.

    The Trainer draws dropout from torch's global generator, which is seeded meanwhile and restored.
    """
    groups = [row[TASK] for row in rows] if TASK in rows[0] else None
    batches = SimilarBatches([len(row["input_ids"]) for row in rows], options.batch, seed, groups)
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng():
        arguments = TrainingArguments(
            folder,
            num_train_epochs=options.epochs,
            learning_rate=options.lr,
            per_device_train_batch_size=options.batch,
            warmup_steps=max(1, round(WARMUP * options.epochs * len(batches))),
            weight_decay=DECAY,
            bf16=options.dtype == "bfloat16",
            # Without an accelerator too: the Trainer refuses bfloat16 on a CPU that was not asked for.
            use_cpu=options.device == "cpu" or not torch.accelerator.is_available(),
            lr_scheduler_type="linear",
            seed=seed % 2**32,  # numpy's seeds, which the Trainer sets too, are no larger
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = _GroupedTrainer(
            faster(model), arguments, data_collator=Collator(tokenizer), train_dataset=list(rows), batches=batches,
            callbacks=[_Progress(report)] if report is not None else None,
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        loss = trainer.train().training_loss
    model.eval()
    if not math.isfinite(loss) or not all(bool(torch.isfinite(p).all()) for p in model.parameters()):
        raise AnyorderError(f"fine-tuning diverged at a learning rate of {options.lr:g}: choose a smaller --lr")


@torch.inference_mode()
def answers(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    outputs: Sequence[str],
    *,
    per_token: bool = False,
    batch: int = 64,
) -> list[tuple[torch.Tensor, ...]]:
    """The model's ``outputs`` (such as ``logits``) of every row, in the rows' order; ``per_token`` without padding's.

    Rows go through the model by length. (``Trainer.predict`` would return them in the order of its batches.)
    """
    model, collate, device = faster(model), Collator(tokenizer), next(model.parameters()).device
    by_length = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    found: list[tuple[torch.Tensor, ...]] = [()] * len(rows)
    for start in range(0, len(rows), batch):
        part = by_length[start : start + batch]
        inputs = {k: v.to(device) for k, v in collate([rows[i] for i in part]).items()}
        answer = model(**inputs)
        real = inputs["attention_mask"].bool()
        for place, i in enumerate(part):
            each = [answer[name][place] for name in outputs]
            found[i] = tuple((one[real[place]] if per_token else one).float().cpu() for one in each)
    return found
