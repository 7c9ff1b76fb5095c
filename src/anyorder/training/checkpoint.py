"""Checkpoints that are whole or not there: written beside, synced, then renamed into place."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from anyorder.errors import AnyorderError
from anyorder.training.recipe import Recipe, from_dict

_WRITING = ".writing"


@dataclass(frozen=True)
class Checkpoint:
    """A saved moment of a run: a folder that ``from_pretrained`` reads, with the optimisers and the recipe beside."""

    path: Path
    step: int  # optimiser steps done
    recipe: Recipe


def save(
    folder: Path,
    step: int,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    optimizers: list[torch.optim.Optimizer],
    recipe: Recipe,
    keep: int,
) -> Path:
    """Write checkpoint ``step`` under ``folder``; older ones beyond ``keep`` go only after it is in place."""
    target = folder / f"step-{step:08d}"

    def write(temporary: Path) -> None:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        torch.save([o.state_dict() for o in optimizers], temporary / "optimizer.pt")
        (temporary / "state.json").write_text(json.dumps({"step": step, "recipe": recipe.to_dict()}))

    atomically(target, write)
    for old in _complete(folder)[:-keep] if keep else []:
        shutil.rmtree(old)
    return target


def atomically(target: Path, write: Any) -> None:
    """``write(folder)`` into a folder that takes the name ``target`` only once all of it is on disk."""
    temporary = target.with_name(target.name + _WRITING)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        for file in temporary.rglob("*"):
            _sync(file)
        if target.exists():  # the same step written by a run that was killed just after
            shutil.rmtree(target)
        temporary.rename(target)
        _sync(target.parent)
    except (OSError, RuntimeError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        # torch and safetensors wrap the disk's answer in errors of their own
        if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error) or "write" in str(error):
            raise AnyorderError(
                f"could not write {target} (is the disk full?): the last good checkpoint is untouched; "
                f"make room and continue with --resume"
            ) from error
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _complete(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("step-*") if not p.name.endswith(_WRITING))


def latest(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint under ``folder``; leftovers of interrupted writes are removed."""
    for torn in folder.glob(f"*{_WRITING}"):
        shutil.rmtree(torn)
    complete = _complete(folder)
    if not complete:
        return None
    state = json.loads((complete[-1] / "state.json").read_text())
    return Checkpoint(complete[-1], state["step"], from_dict(state["recipe"]))


def restore(checkpoint: Checkpoint, optimizers: list[torch.optim.Optimizer]) -> None:
    """Put the optimisers back where they were."""
    states = torch.load(checkpoint.path / "optimizer.pt", weights_only=True)
    for optimizer, state in zip(optimizers, states, strict=True):
        optimizer.load_state_dict(state)
