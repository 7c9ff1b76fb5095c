"""Checkpoints that are whole or not there: written beside, synced, then renamed into place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from anyorder.errors import AnyorderError
from anyorder.files.disk import UNFINISHED, atomically
from anyorder.models.fit import first_line
from anyorder.models.pairs import LengthHead
from anyorder.training.recipe import Recipe, from_dict


@dataclass(frozen=True)
class Checkpoint:
    """A saved moment of a run: a folder that ``from_pretrained`` reads, with the optimisers and the recipe beside."""

    path: Path
    step: int  # optimiser steps done
    recipe: Recipe
    corpus: str | None = None  # the checksum of what it was trained on; older checkpoints do not say


def save_model(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, length_head: LengthHead | None
) -> None:
    """What ``from_pretrained`` reads, and the head for lengths beside it if there is one."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if length_head is not None:
        length_head.save(folder)


def save(
    folder: Path,
    step: int,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    length_head: LengthHead | None,
    optimizers: list[torch.optim.Optimizer],
    recipe: Recipe,
    corpus: str,
) -> None:
    """Write checkpoint ``step`` under ``folder``; older ones beyond ``run.keep`` go only after it is in place."""

    def write(temporary: Path) -> None:
        save_model(temporary, model, tokenizer, length_head)
        torch.save([o.state_dict() for o in optimizers], temporary / "optimizer.pt")
        (temporary / "state.json").write_text(json.dumps({"step": step, "corpus": corpus, "recipe": recipe.to_dict()}))

    atomically(folder / f"step-{step:08d}", write)
    keep = recipe.run.keep
    for old in _complete(folder)[:-keep] if keep else []:
        shutil.rmtree(old)


def _complete(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("step-*") if UNFINISHED not in p.name)


def latest(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint under ``folder``; leftovers of interrupted writes are removed."""
    for torn in folder.glob(f"*{UNFINISHED}*"):  # also one replaced by the same step: the run does that step again
        shutil.rmtree(torn, ignore_errors=True)  # each process of a run does this: another may be faster
    complete = _complete(folder)
    if not complete:
        return None
    with _undamaged(complete[-1]):
        state = json.loads((complete[-1] / "state.json").read_text(encoding="utf-8"))
        return Checkpoint(complete[-1], int(state["step"]), from_dict(state["recipe"]), state.get("corpus"))


def restore(checkpoint: Checkpoint, optimizers: list[torch.optim.Optimizer]) -> None:
    """Put the optimisers back where they were."""
    with _undamaged(checkpoint.path):
        states = torch.load(checkpoint.path / "optimizer.pt", weights_only=True)
        for optimizer, state in zip(optimizers, states, strict=True):
            optimizer.load_state_dict(state)


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """A checkpoint that cannot be read is refused in a sentence; the one before it may still be sound."""
    try:
        yield
    except Exception as error:  # torch's reader raises anything
        raise AnyorderError(
            f"the checkpoint {path} is damaged ({first_line(error)}): remove it to go on from the one before"
        ) from error
