"""Training speed: our trainer's step against transformers' Trainer on the same model and data, in one run.

    python benchmarks/bench_training.py

Both train the bundled model's architecture in fp32 with AdamW on the same blocks of random tokens. The Trainer masks
15 % with DataCollatorForLanguageModeling, 80/10/10, and puts its head on every position. Ours does the same job with
its head, and the last feed-forward, on the masked positions only; and then its own, masks from the uniform prior, half
of all tokens on average, where less can be left out.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import common
import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling, Trainer, TrainerCallback, TrainingArguments
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

import anyorder
from anyorder.models.build import build
from anyorder.training.data import Blocks
from anyorder.training.recipe import from_dict
from anyorder.training.trainer import _Run

LENGTH, BATCH = 128, 16
JOBS = {
    "15 % masked": {"prior": "fixed:0.15", "corruption": "80-10-10", "normalise": "token"},
    "uniform prior": {"prior": "uniform-count"},
}


def model(tokenizer):
    sizes = {"hidden_size": 256, "layers": 8, "heads": 4, "intermediate": 640, "max_length": LENGTH, "dropout": 0.0}
    ids = {"pad_id": tokenizer.pad_token_id, "cls_id": tokenizer.cls_token_id, "sep_id": tokenizer.sep_token_id}
    return build("modernbert", vocab_size=len(tokenizer), **sizes, **ids)


class Times(TrainerCallback):
    """Seconds of every step."""

    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *_, **__):
        self.began = common.clock()

    def on_step_end(self, *_, **__):
        self.seconds.append(common.clock() - self.began)


def plain(tokenizer, texts, steps):
    """Seconds a step of transformers' Trainer."""
    times = Times()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
        )
        data = [{"input_ids": t.tolist()} for t in texts]
        collator = DataCollatorForLanguageModeling(tokenizer)
        Trainer(model(tokenizer), arguments, collator, train_dataset=data, callbacks=[times]).train()
    return times.seconds


def ours(texts, steps, folder, objective):
    """Seconds a step of ours, over the same texts."""
    recipe = from_dict(
        {
            "output": str(folder / "run"),
            "tokenizer": {"path": str(folder / "tokenizer")},
            "data": {"files": [str(folder / "text.txt")], "holdout": 0.0, "min_tokens": 1},
            "objective": objective,
            "optim": {"steps": steps, "batch": BATCH, "micro_batch": 8},
        }
    )
    run = _Run(recipe, False, None, rank=0, world=1, quiet=True)
    run.train_blocks = Blocks(np.concatenate(texts), np.arange(len(texts) + 1) * LENGTH)
    seconds = []
    for step in range(steps):
        began = common.clock()
        run._step(step)
        seconds.append(common.clock() - began)
    return seconds


def main() -> None:
    options = common.parser(__doc__).parse_args()
    steps = 3 if options.quick else options.repeats + 1
    set_verbosity_error()
    disable_progress_bar()
    tokenizer = anyorder.load().tokenizer
    texts = list(np.random.default_rng(0).integers(5, len(tokenizer), (BATCH * steps, LENGTH)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder / "tokenizer")
        (folder / "text.txt").write_text("The sea was calm. " * 40)
        slow = []
        fast = {job: [] for job in JOBS}
        for _ in range(3):  # rounds of each by turns; the first step of a round is warm-up
            slow += plain(tokenizer, texts, steps)[1:]
            for job, objective in JOBS.items():
                fast[job] += ours(texts, steps, folder, objective)[1:]
    speeds = {f"tokens/s {job}": round(BATCH * LENGTH / statistics.median(s)) for job, s in fast.items()}
    speeds["threads"] = torch.get_num_threads()
    rows = [
        common.ratio(f"training over transformers.Trainer, {job}", slow, fast[job], target=target)
        for job, target in zip(JOBS, (1.5, None), strict=True)
    ]
    common.show(rows, {**common.machine(), **speeds}, options.json)


if __name__ == "__main__":
    main()
