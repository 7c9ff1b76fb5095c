"""Options of fine-tuning on GLUE and SQuAD 2.0."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anyorder.options import Options, option, seed_option


@dataclass(frozen=True, kw_only=True)
class LearningOptions(Options):
    """Of :mod:`anyorder.studies.understanding.training`: BERT's settings (Devlin et al. 2019) by default."""

    data_dir: Path | None = option(None, "Folder of GLUE's folders and of squad2; from the hub if absent.")
    epochs: float = option(3.0, "Passes over the training set; small models want more.", above=0)
    lr: float = option(5e-5, "Peak learning rate; small models want more, such as 5e-4.", above=0)
    batch: int = option(32, "Texts per step.", least=1)
    max_length: int | None = option(
        None,
        "Tokens the model reads at once; longer texts are cut, passages read in windows. 128, or 384 for squad2.",
        least=8,
    )
    stride: int | None = option(
        None, "Tokens from one window of squad2 to the next; a third of --max-length if absent.", least=1
    )
    train_limit: int | None = option(None, "At most this many training examples per task.", least=2)
    test_limit: int | None = option(None, "At most this many test examples per task.", least=2)
    from_dev: float = option(
        0.6, "Share of the dev set to learn from where there is no training set (qnli, squad2).", above=0, below=1
    )
    device: str | None = option(
        None,
        "Where it learns; a GPU if there is one, if absent. Among several, CUDA_VISIBLE_DEVICES chooses.",
        choices=("cpu", "cuda", "mps", "xpu"),
    )
    dtype: str = option(
        "float32",
        "Precision of learning's products; bfloat16, by autocast, is faster on CPUs with bfloat16 units.",
        choices=("float32", "bfloat16"),
    )


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions(LearningOptions):
    """Of :mod:`anyorder.studies.understanding.learning`."""

    model: str | None = option(None, "A Hugging Face name or a folder; the bundled model if absent.", "-m")
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class UnderstandingOptions(LearningOptions):
    """Of :mod:`anyorder.studies.understanding.table`."""

    models: tuple[str, ...] = option(
        (), "name=folder or hub name; may be repeated. The bundled model if absent.", "--models", "--model", "-m"
    )
    tasks: str = option("all", "Among cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte and squad2, with commas between.")
    seeds: int = option(3, "Runs of each model on each task.", least=1)
    large_seeds: int = option(1, "Runs on tasks with more than 10,000 training examples.", least=1)
    multi_task: bool = option(False, "Also learn all tasks together first, then each alone: rows with a *.")
    against: str | None = option(None, "The model the others are compared with; bert, or the first, if absent.")
    seed: int = seed_option()
