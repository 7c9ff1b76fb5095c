"""Fixtures for every test: a tiny masked LM with real words."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# No test has a clock: a machine that is busy elsewhere must not fail one.
settings.register_profile("anyorder", deadline=None)
settings.load_profile("anyorder")

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Where transformers copies code that comes with a checkpoint: one folder per process, gone when it ends. One per test
# does not work, for the package of that name is looked for where it was first found.
_MODULES = tempfile.TemporaryDirectory(prefix="modules-")
os.environ["HF_MODULES_CACHE"] = _MODULES.name

from tiny import tiny_checkpoint_of  # noqa: E402 - after the settings above

# The files that take longest, by CPU time. The processes end together if these are begun first.
_LONG = ("test_docs", "test_ray", "test_page", "test_campaign", "test_trainer", "test_two_machines", "test_ordered",
         "test_relative", "test_lab", "test_evaluate_pairwise", "test_understanding_learning", "test_sampler_contract",
         "test_generate", "test_pairs", "test_understanding", "test_tools", "test_certify", "test_site")  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first, in that order."""
    rank = {name: number for number, name in enumerate(_LONG)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


@pytest.fixture(autouse=True)
def _same_numbers_in_any_company() -> None:
    """What a test draws from torch's global generator does not depend on which tests its process ran before."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


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
