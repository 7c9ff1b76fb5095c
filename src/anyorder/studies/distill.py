"""Distillation: the targets of a recipe's pairs rewritten by another model, as few-step translation usually has it.

People translate one sentence in many ways; a model that writes several words at once cannot mix them. What one model
wrote has fewer modes to confuse (Kim and Rush 2016; Ghazvininejad et al. 2019).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.errors import AnyorderError
from anyorder.files.columns import rows
from anyorder.files.journal import Results, same_json, windows
from anyorder.tasks.options import TranslateOptions
from anyorder.tasks.translate import translate
from anyorder.training.recipe import Recipe

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

WINDOW = 1024  # sources translated and written together: a fifth faster than 256, which leave batches half empty
# One word after the other: the teacher's best, since a student can only be as good.
TEACHING = TranslateOptions(sampler="any-order", order="left-to-right", lengths=3)


def distilled(
    recipe: Recipe, data_dir: Path | None, teacher: MaskedLM, progress: Callable[[int], None] = lambda done: None
) -> Recipe:
    """``recipe`` with its files replaced by their sources and what ``teacher`` writes for them.

    They lie in ``distilled/`` of the run's folder, as JSON lines; a killed run goes on with them.
    """
    if not recipe.data.columns:
        raise AnyorderError("--distill rewrites the targets of pairs: name their columns with data.columns")
    folder = Path(recipe.output) / "distilled"
    folder.mkdir(parents=True, exist_ok=True)
    files, done = [], 0
    for name, stem in zip(recipe.data.files, _stems(recipe.data.files), strict=True):
        path = folder / f"{stem}.jsonl"
        given = str(data_dir / name if data_dir else name)
        sources = [pair[0] for pair in rows(given, recipe.data.columns) if all(pair)]
        settings = {"teacher": teacher.name, "precision": recipe.precision}
        results = Results(path, settings, partial(same_json, field="source"))
        texts = iter(sources)
        results.resume(texts, WINDOW, len(sources))
        if results.written < len(sources) and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise AnyorderError(
                "--distill rewrites targets in one process: begin the run with anyorder train, and go on with --resume "
                "under torchrun once it trains"
            )
        for window in windows(texts, WINDOW):
            found = translate(teacher, window, TEACHING, first=results.written + 1)
            lines = [{"source": one.source, "target": one.text} for one in found]
            results.write([json.dumps(line, ensure_ascii=False) for line in lines])
            progress(done + results.written)
        results.finish()
        done += results.written
        files.append(str(path.resolve()))
    return replace(recipe, data=replace(recipe.data, files=tuple(files), columns=("source", "target")))


def _stems(files: Sequence[str]) -> list[str]:
    """A name for each file, numbered where two are called alike (``de/train.tsv`` and ``fr/train.tsv``)."""
    stems = [Path(name).name.split(".")[0] for name in files]
    return [stem if stems.count(stem) == 1 else f"{stem}-{number}" for number, stem in enumerate(stems, 1)]
