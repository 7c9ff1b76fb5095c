"""Two tiny models trained by our own trainer for a moment: a u-PMLM and a GPT of one size and one tokenizer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anyorder.training.recipe import (
    DataRecipe,
    ModelRecipe,
    ObjectiveRecipe,
    OptimRecipe,
    Recipe,
    RunRecipe,
    TokenizerRecipe,
)
from small_run import corpus, recipe_file
from tiny import WORDS

__all__ = ["corpus", "recipe_file"]  # fixtures of test_bundle.py


def story(lines: int, words: int, start: int = 0) -> str:
    """Lines of words that follow one another by a rule, so that there is something to learn."""
    texts = []
    for i in range(start, start + lines):
        n = words + i % 3
        texts.append(" ".join(WORDS[(i * 5 + 3 * j) % 40] for j in range(n)) + ".")
    return "\n".join(texts) + "\n"


@pytest.fixture(scope="session")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """train and test: one long document; lines: short sentences."""
    folder = tmp_path_factory.mktemp("corpus")
    files = {"train": story(120, 9), "test": story(40, 9, 200), "lines": story(60, 4), "test_lines": story(20, 4, 100)}
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return {name: folder / f"{name}.txt" for name in files}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, stories: dict[str, Path]) -> dict[str, Path]:
    """Folders of the two models."""
    from anyorder.training.trainer import train

    root = tmp_path_factory.mktemp("runs")
    base = Recipe(
        output=str(root / "bert"),
        data=DataRecipe(files=(str(stories["train"]),), length=32, holdout=(0.0,)),
        tokenizer=TokenizerRecipe(vocab_size=150),
        model=ModelRecipe(kind="bert", hidden_size=32, layers=2, heads=2, intermediate=48),
        optim=OptimRecipe(steps=30, batch=8, micro_batch=8, lr=3e-3, warmup=5),
        run=RunRecipe(threads=0),
    )
    bert = train(base, quiet=True)
    gpt = replace(
        base,
        output=str(root / "gpt"),
        tokenizer=TokenizerRecipe(path=str(bert)),
        model=replace(base.model, kind="gpt2"),
        objective=ObjectiveRecipe(name="causal"),
    )
    return {"u-pmlm-a": bert, "gpt": train(gpt, quiet=True)}
