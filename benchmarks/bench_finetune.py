"""Fine-tuning speed on SST-2: our batches against transformers' Trainer with its defaults, in one run.

    python benchmarks/bench_finetune.py --data-dir FOLDER [--model runs/bert/final --examples 20000]

Both are the Trainer and fine-tune the same small BERT (4 layers, width 128, new weights, or --model) with the same
settings on the same texts. The plain one draws its batches at random and pads each to its longest text, which is what
the Trainer does if it is given a tokenizer; --padded adds a third, which pads every text to 128 tokens as run_glue.py
does. Ours puts texts of similar length together. Whole epochs are timed by turns; the accuracy on the dev set after
each one's training is printed beside. Without --data-dir the texts are random words with SST-2's lengths, labelled by a
word in them.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import common
import torch
from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainingArguments
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

import anyorder
from anyorder.models.build import build
from anyorder.studies.options.understanding import LearningOptions
from anyorder.studies.understanding.learning import read_job
from anyorder.studies.understanding.training import DECAY, WARMUP, fit

SIZES = {"hidden_size": 128, "layers": 4, "heads": 2, "intermediate": 512, "max_length": 128}


def small_bert(folder: Path) -> str:
    """The bundled tokenizer and a BERT with new weights."""
    tokenizer = anyorder.load().tokenizer
    ids = {"pad_id": tokenizer.pad_token_id, "cls_id": tokenizer.cls_token_id, "sep_id": tokenizer.sep_token_id}
    build("bert", vocab_size=len(tokenizer), **ids, **SIZES).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def made_up(folder: Path) -> Path:
    """Texts as long as SST-2's (a mean of 9 words, a tail to 50), good or bad by one word."""
    rng = random.Random(0)
    words = ["film", "story", "the", "a", "of", "and", "old", "man", "which", "is", "to", "in", "scenes", "it"]
    (folder / "SST-2").mkdir()
    for part, count in (("train", 4000), ("dev", 400)):
        lines = ["sentence\tlabel"]
        for i in range(count):
            text = [rng.choice(words) for _ in range(min(50, 2 + int(rng.expovariate(1 / 8))))]
            text.insert(rng.randrange(len(text)), ("terrible", "wonderful")[i % 2])
            lines.append(f"{' '.join(text)}\t{i % 2}")
        (folder / "SST-2" / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def plain(model, tokenizer, rows, options, pad_to: int | None) -> None:
    """transformers' Trainer with its own batches."""
    steps = -(-len(rows) // options.batch) * options.epochs
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=options.epochs, learning_rate=options.lr, seed=0, weight_decay=DECAY,
            per_device_train_batch_size=options.batch, warmup_steps=max(1, round(WARMUP * steps)), save_strategy="no",
            logging_strategy="no", report_to="none", disable_tqdm=True,
        )  # fmt: skip
        how = {"padding": "max_length", "max_length": pad_to} if pad_to else {}
        trainer = Trainer(model, arguments, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer, **how))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--data-dir", type=Path, help="a folder that holds SST-2/train.tsv and dev.tsv (or .xz, .gz)")
    parser.add_argument("--model", help="a checkpoint to begin with; new weights if absent, which learn little")
    parser.add_argument("--examples", type=int, default=3200, help="training texts")
    parser.add_argument("--padded", action="store_true", help="also pad every text to 128 tokens")
    args = parser.parse_args()
    set_verbosity_error()
    disable_progress_bar()
    repeats = 2 if args.quick else min(args.repeats, 5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = args.model or small_bert(folder / "bert")
        limit = 640 if args.quick else args.examples
        options = LearningOptions(
            data_dir=args.data_dir or made_up(folder), epochs=1, lr=1e-3, batch=32, train_limit=limit
        )
        job = read_job("sst2", options)
        models = {}  # the last one of each way

        def run(how: str) -> None:
            torch.manual_seed(0)
            ready = job.load(start)
            rows = job.training_rows(ready)
            if how == "ours":
                fit(ready.model, ready.tokenizer, rows, options, seed=0)
            else:
                plain(ready.model, ready.tokenizer, rows, options, 128 if how == "padded to 128" else None)
            models[how] = ready

        ways = ("plain Trainer", *["padded to 128"] * args.padded, "ours")
        seconds = common.turns({how: lambda how=how: run(how) for how in ways}, repeats, warmup=0, clock=common.clock)
        reached = {how: round(job.outcomes(ready)[0][0].value("accuracy"), 1) for how, ready in models.items()}
        ratios = [
            common.ratio(f"fine-tuning on SST-2, ours over {how}", seconds[how], seconds["ours"], target)
            for how, target in (("plain Trainer", 1.3), ("padded to 128", None))
            if how in seconds
        ]
        settings = common.machine() | {"texts": len(job.train), "accuracy": reached}
        settings["data"] = "SST-2" if args.data_dir else "made up"
        common.show(ratios, settings, args.json)


if __name__ == "__main__":
    main()
