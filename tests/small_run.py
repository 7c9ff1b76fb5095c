"""A small corpus and a small run, enough to exercise every path of the trainer in seconds."""

import random

import pytest
import yaml

WORDS = [
    *("the", "a", "old", "young", "man", "woman", "dog", "door", "house", "sea", "walked", "opened"),
    *("saw", "found", "lost", "into", "out", "of", "and", "but", "then", "slowly"),
]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """40 documents of 3 paragraphs: a paragraph a line, a blank line between documents."""
    rng = random.Random(0)
    folder = tmp_path_factory.mktemp("corpus")
    lines = []
    for _ in range(40):
        lines += [" ".join(rng.choices(WORDS, k=rng.randint(8, 40))).capitalize() + "." for _ in range(3)] + [""]
    (folder / "small.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def recipe_file(tmp_path):
    """A recipe of a few seconds; returns its path. Extra settings by keyword, nested with dictionaries."""

    def write(**changes):
        values = {
            "output": str(tmp_path / "run"),
            "data": {"files": ["small.txt"], "length": 32, "holdout": 0.1, "min_tokens": 4},
            "tokenizer": {"vocab_size": 120},
            "model": {"kind": "bert", "hidden_size": 16, "layers": 2, "heads": 2, "intermediate": 32, "dropout": 0.1},
            "optim": {"steps": 12, "batch": 8, "micro_batch": 4, "warmup": 2},
            "run": {"checkpoint_every": 3, "evaluate_every": 6, "evaluate_blocks": 8, "log_every": 1, "threads": 1},
        }
        for key, value in changes.items():
            values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    return write
