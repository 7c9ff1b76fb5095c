"""`anyorder evaluate translation`: BLEU, chrF, stutter and time against the number of steps."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOptions,
    OverwriteOption,
    ResumeOption,
    command,
    load_model,
    print_json,
    progress,
    show,
    write_up,
)
from anyorder.cli.evaluate import evaluate_app
from anyorder.errors import AnyorderError
from anyorder.files.disk import check_output, only_writer
from anyorder.studies.options.translation import TranslationOptions

if TYPE_CHECKING:
    from anyorder.studies.target_dependence import TargetDependence
    from anyorder.studies.translation import TranslationQuality


@command("anyorder evaluate translation --model MODEL --data test.tsv --steps 1,2,4,8 --out docs/results", evaluate_app)
def translation(
    options: TranslationOptions,
    model: ModelOptions,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for translation.json, .md and .png, and the journal translations.jsonl."),
    ] = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """How well a model trained on pairs translates in few steps, compared with writing left to right.

    What each way has written is kept at once: with --resume a run that was stopped goes on with the next way, and a
    finished one with more ways, steps and lengths.
    """
    from anyorder.files.journal import Journal
    from anyorder.show.translation import plot_translation, translation_markdown, translation_table
    from anyorder.studies.translation import read_pairs, signatures, study, systems

    if resume and out is None:
        raise AnyorderError("--resume continues a folder: name it with --out")
    if out is not None:
        if not out.parent.is_dir():
            raise AnyorderError(f"no folder {out.parent} to write into: create it first")
        out.mkdir(exist_ok=True)
        for name in ("translation.json", "translations.jsonl"):
            check_output(out / name, overwrite=overwrite or resume, also=", or go on with --resume")
    path = None if out is None else out / "translations.jsonl"
    pairs = read_pairs(str(options.data), options.columns, options.limit)
    several = systems(options.names, options.numbers, options.beams, options.seed)
    lm = load_model(model)
    other = None if options.baseline is None else load_model(replace(model, model=options.baseline))
    # What decides a translation beside its way; more of those may be asked for when a run goes on.
    about = {"model": lm.name, "dtype": model.dtype, "data": options.data.name}
    kept = about | {name: getattr(options, name) for name in ("baseline", "columns", "limit", "seed")}
    settings: dict[str, Any] = {**asdict(options), **about, "signatures": signatures()}
    rows: list[TranslationQuality] = []
    depends: TargetDependence | None = None
    finished = False
    with only_writer(path), progress() as bar, suppress(KeyboardInterrupt):
        task = bar.add_task("starting", total=len(several) + (options.dependence > 0))
        journal = None if path is None else Journal(path, kept, resume=resume, overwrite=overwrite)
        for row, _ in study(
            lm, pairs, several, resamples=options.resamples, seed=options.seed, baseline=other, journal=journal,
            progress=lambda what: bar.update(task, description=what),
        ):  # fmt: skip
            rows.append(row)
            bar.advance(task)
        if options.dependence:
            from anyorder.studies.target_dependence import target_dependence

            bar.update(task, description="dependence")
            depends = target_dependence(lm, pairs, options.dependence, options.seed)
        finished = True
    result: dict[str, Any] = {"rows": [row.to_dict() for row in rows], "settings": settings}
    if depends is not None:
        result["dependence"] = depends.to_dict()
    if out is not None and rows:
        write_up(out, "translation", result, translation_markdown(rows))
        plot_translation(rows, out / "translation.png")
    if as_json:
        print_json(result)
    else:
        show(translation_table(rows))
        for name, value in result.get("dependence", {}).items():
            if isinstance(value, dict):
                print(f"{name.replace('_', ' ')}: {value['value']:.3f} ± {value['standard_error']:.3f}")
    if not finished:
        remedy = "" if out is None else "; --resume goes on"
        print(f"anyorder: interrupted, {len(rows)} rows finished{remedy}", file=sys.stderr)
        raise typer.Exit(130)
