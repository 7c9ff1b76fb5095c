"""`anyorder evaluate generation`: text quality and time against the number of steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    RemoteCodeOption,
    SeedOption,
    load_model,
    print_json,
    progress,
)
from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from anyorder.studies.generation import Quality


def generation(
    steps: Annotated[str, typer.Option("--steps", help="Numbers of steps, comma-separated.")] = "4,8,16,32,64",
    length: Annotated[
        int, typer.Option("--length", "-l", help="Tokens of every text, special ones not counted.")
    ] = 126,
    texts: Annotated[int, typer.Option("--texts", "-n", help="Texts generated for every row.")] = 64,
    samplers: Annotated[
        str, typer.Option("--samplers", help="Among parallel, refine, gibbs.")
    ] = "parallel,refine,gibbs",
    judge: Annotated[
        str | None, typer.Option("--judge", help="A causal LM (GPT), name or folder, for generative perplexity.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="Real texts, one a line (.txt, .gz, .xz), to compare with.")
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", help="Of every sampler.")] = 1.0,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for generation.json, .md and .png.")] = None,
    seed: SeedOption = 0,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Quality and time of parallel, refine and Gibbs against their number of steps, beside any-order and real text.

    Example: anyorder evaluate generation --judge gpt2 --corpus books.txt.xz --texts 64 --out docs/results
    """
    try:
        numbers = [int(part) for part in steps.split(",")]
    except ValueError:
        raise AnyorderError(f"cannot read the steps {steps!r}: write them as 4,8,16") from None
    if out is not None and not out.parent.is_dir():
        raise AnyorderError(f"no folder {out.parent} to write into: create it first")
    lm = load_model(model, allow_pickle, trust_remote_code)
    from anyorder.studies.generation import masked_writers, real_texts, study
    from anyorder.studies.judge import load_judge

    critic = load_judge(judge) if judge is not None else None
    names = [name.strip() for name in samplers.split(",")]
    writers = list(
        masked_writers(lm.name, lm, length=length, steps=numbers, samplers=names, temperature=temperature, seed=seed)
    )
    real = real_texts(lm, corpus, length, texts) if corpus is not None else None
    settings = {
        "model": lm.name, "length": length, "texts": texts, "steps": numbers, "samplers": names, "judge": judge,
        "corpus": None if corpus is None else corpus.name, "temperature": temperature, "seed": seed,
    }  # fmt: skip
    rows: list[Quality] = []
    interrupted = False
    with progress() as bar:
        task = bar.add_task("starting", total=len(writers) + (real is not None))
        try:
            for row in study(
                writers, texts=texts, judge=critic, real=real, progress=lambda what: bar.update(task, description=what)
            ):
                rows.append(row)
                bar.advance(task)
        except KeyboardInterrupt:
            interrupted = True
    result = {"rows": [row.to_dict() for row in rows], "settings": settings}
    if out is not None and rows:
        _write(out, rows, result)
    if as_json:
        print_json(result)
    else:
        from rich.console import Console

        from anyorder.show.generation import generation_table

        Console().print(generation_table(rows))
    if interrupted:
        print(f"anyorder: interrupted, {len(rows)} rows finished", file=sys.stderr)
        raise typer.Exit(130)


def _write(out: Path, rows: list[Quality], result: dict[str, Any]) -> None:
    from anyorder.show.generation import generation_markdown, plot_generation

    out.mkdir(exist_ok=True)
    (out / "generation.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (out / "generation.md").write_text(generation_markdown(rows) + "\n", encoding="utf-8")
    plot_generation(rows, out / "generation.png")


def register(app: typer.Typer) -> None:
    """Add the command to the evaluate group."""
    app.command("generation")(generation)
