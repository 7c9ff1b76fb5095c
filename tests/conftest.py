"""Fixtures for every test: a tiny masked LM with real words."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Where transformers copies code that comes with a checkpoint: one folder per process, gone when it ends. One per test
# does not work, for the package of that name is looked for where it was first found.
_MODULES = tempfile.TemporaryDirectory(prefix="modules-")
os.environ["HF_MODULES_CACHE"] = _MODULES.name

from tiny import tiny_checkpoint_of  # noqa: E402 - after the settings above


@pytest.fixture(scope="session")
def make_checkpoint() -> Callable[..., Path]:
    """:func:`tiny.tiny_checkpoint_of`: (family, path, seed=0, **config) -> path."""
    return tiny_checkpoint_of


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random BertForMaskedLM with a WordPiece tokenizer of real words."""
    return tiny_checkpoint_of("bert", tmp_path_factory.mktemp("tiny") / "bert")


@pytest.fixture(scope="session")
def tiny_lm(tiny_checkpoint: Path) -> Any:
    """The facade over :func:`tiny_checkpoint`."""
    import anyorder

    return anyorder.load(str(tiny_checkpoint))


@pytest.fixture
def tokenised(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters of every text that the tiny model's tokenizer is given from here on."""
    kind, seen = type(tiny_lm.tokenizer), []
    real = kind.__call__

    def call(self: Any, text: Any, *args: Any, **options: Any) -> Any:
        seen.extend(map(len, [text] if isinstance(text, str) else text))
        return real(self, text, *args, **options)

    monkeypatch.setattr(kind, "__call__", call)
    return seen
