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
from transformers import (
    DataCollatorForLanguageModeling,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

import anyorder
from anyorder.models.build import build
from anyorder.training.blocks import Blocks
from anyorder.training.mixture import Mixture
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


class ByTurns(TrainerCallback):
    """Seconds of every step of the Trainer, from the end of one to the end of the next, masking and collating included;
    between two of them, one step of each of ours.
    """

    def __init__(self, ours):
        self.ours = ours
        self.seconds = {name: [] for name in ("Trainer", *ours)}

    def on_train_begin(self, *_, **__):
        self.began = common.clock()

    def on_step_end(self, _, state, *__, **___):
        self.seconds["Trainer"].append(common.clock() - self.began)
        for name, run in self.ours.items():
            began = common.clock()
            run._step(state.global_step - 1)
            self.seconds[name].append(common.clock() - began)
        self.began = common.clock()


def ours(texts, steps, folder, job):
    """Our trainer, over the same texts."""
    recipe = from_dict(
        {
            "output": str(folder / job),
            "tokenizer": {"path": str(folder / "tokenizer")},
            "data": {"files": [str(folder / "text.txt")], "holdout": 0.0, "min_tokens": 1},
            "objective": JOBS[job],
            "optim": {"steps": steps, "batch": BATCH, "micro_batch": BATCH},
        }
    )
    run = _Run(recipe, None)
    run.batches.train = Blocks(np.concatenate(texts), np.arange(len(texts) + 1) * LENGTH, (len(texts),))
    run.batches.mixture = Mixture(run.batches.train.sizes, (), recipe.seed)
    return run


def measure(tokenizer, texts, steps, folder):
    """Seconds of every step but the first, which is warm-up."""
    times = ByTurns({job: ours(texts, steps, folder, job) for job in JOBS})
    arguments = TrainingArguments(
        folder / "plain",
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
    trainer = Trainer(model(tokenizer), arguments, collator, train_dataset=data, callbacks=[times])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return {name: seconds[1:] for name, seconds in times.seconds.items()}


def main() -> None:
    options = common.parser(__doc__).parse_args()
    steps = 1 + (3 if options.quick else 3 * options.repeats)
    set_verbosity_error()
    disable_progress_bar()
    tokenizer = anyorder.load().tokenizer
    texts = list(np.random.default_rng(0).integers(5, len(tokenizer), (BATCH * steps, LENGTH)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder / "tokenizer")
        (folder / "text.txt").write_text("The sea was calm. " * 40)
        seconds = measure(tokenizer, texts, steps, folder)
    speeds = {f"tokens/s {name}": round(BATCH * LENGTH / statistics.median(s)) for name, s in seconds.items()}
    speeds["threads"] = torch.get_num_threads()
    rows = [
        common.ratio(f"training over transformers.Trainer, {job}", seconds["Trainer"], seconds[job], target=target)
        for job, target in zip(JOBS, (1.5, None), strict=True)
    ]
    common.show(rows, {**common.machine(), **speeds}, options.json)


if __name__ == "__main__":
    main()
