"""`anyorder evaluate latency`: Liao et al.'s Table 4, with the quality of what was written beside the time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from anyorder.cli.common import JsonOption, command, print_json, progress, show
from anyorder.cli.evaluate import evaluate_app, named_models
from anyorder.errors import AnyorderError
from anyorder.show.generation import generation_table
from anyorder.studies.options.generation import LatencyOptions
from anyorder.tasks.options import LoadOptions


@command("anyorder evaluate latency --models gpt=runs/gpt/final u-pmlm-a=runs/u-pmlm-a/final", evaluate_app)
def latency(
    options: LatencyOptions,
    load: LoadOptions,
    more: Annotated[list[str] | None, typer.Argument(help="Further models.", show_default=False)] = None,
    json: JsonOption = False,
) -> None:
    """Time and quality of writing: GPT with its cache, and masked models one token per step or several at once.

    The perplexity is that of the texts under the judge, which favours texts like its own; entropy and distinct pairs
    show when it is low only because the text is repetitive.
    """
    import torch

    import anyorder
    from anyorder.studies.causal import is_causal
    from anyorder.studies.generation import Writer, causal_writer, masked_writers, study
    from anyorder.studies.judge import load_judge
    from anyorder.tasks.pieces import affixes
    from anyorder.training.tokenizer import load_tokenizer

    chosen = named_models([*options.models, *(more or [])])
    causal = {name: is_causal(path, load.trust_remote_code) for name, path in chosen.items()}
    judges = [options.judge] if options.judge else [path for name, path in chosen.items() if causal[name]]
    if not judges:
        raise AnyorderError("no causal model to judge the texts: name one with --judge")

    def writers() -> Iterator[Writer]:
        for name, path in chosen.items():
            n = options.length - sum(map(len, affixes(load_tokenizer(path, load.trust_remote_code))))
            if n < 2:
                raise AnyorderError(f"{name} has no room in {options.length} tokens: raise --length")
            if causal[name]:
                yield causal_writer(name, path, load, length=n, seed=options.seed, batch=options.batch)
            else:
                counts = [k for k in options.steps if k < n]
                samplers = ("parallel",) if counts else ()
                yield from masked_writers(
                    name, anyorder.load(path, **load.keywords), length=n, steps=counts, samplers=samplers,
                    seed=options.seed, batch=options.batch,
                )  # fmt: skip

    with progress() as bar:
        task = bar.add_task("starting", total=None)
        judge = load_judge(judges[0], load)
        rows = list(
            study(writers(), texts=options.texts, judge=judge, progress=lambda what: bar.update(task, description=what))
        )
    about = {"dtype": load.dtype, "models": chosen, "judge": judges[0], "threads": torch.get_num_threads()}
    if json:
        print_json({"rows": [row.to_dict() for row in rows], "settings": {**asdict(options), **about}})
    else:
        show(generation_table(rows))
