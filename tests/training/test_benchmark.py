"""The speed comparison with transformers' Trainer: both read the same texts."""

import sys
from pathlib import Path

import numpy as np

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_our_trainer_reads_the_texts_of_the_comparison(tiny_checkpoint, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bench_training

    sys.modules.pop("common", None)  # a name that others may use
    (tmp_path / "tokenizer").symlink_to(tiny_checkpoint)
    (tmp_path / "text.txt").write_text("the old man saw the sea . " * 40)
    texts = list(np.random.default_rng(0).integers(5, 60, (32, bench_training.LENGTH)))
    run = bench_training.ours(texts, 2, tmp_path, "15 % masked")
    read = [row.tolist() for i in (0, 16) for row in run.batches.training(range(i, i + 16), 0.0)["tokens"]]
    assert sorted(read) == sorted(text.tolist() for text in texts)
