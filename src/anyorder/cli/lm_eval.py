"""`anyorder lm-eval`: any masked LM under EleutherAI's lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyorder.cli.common import (
    JsonOption,
    ModelOption,
    PickleOption,
    RemoteCodeOption,
    SeedOption,
    load_model,
    print_json,
)
from anyorder.errors import AnyorderError, choose


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="lm-eval", epilog="Example: anyorder lm-eval --tasks lambada_openai,wikitext --limit 100")(lm_eval)


def lm_eval(
    tasks: Annotated[str, typer.Option(help="Names of tasks, with commas between, or paths of task files (.yaml).")],
    method: Annotated[str, typer.Option(help="chain: exact, left to right; bound: any-order, estimated.")] = "chain",
    samples: Annotated[int, typer.Option(help="Masks a text of the bound.")] = 16,
    num_fewshot: Annotated[int | None, typer.Option(help="Examples in the prompt.")] = None,
    limit: Annotated[float | None, typer.Option(help="So many documents a task; below 1, that share.")] = None,
    include_path: Annotated[Path | None, typer.Option(help="A folder of further task files.")] = None,
    use_cache: Annotated[Path | None, typer.Option(help="Keep answers here and take known ones from here.")] = None,
    json: JsonOption = False,
    seed: SeedOption = 0,
    model: ModelOption = None,
    allow_pickle: PickleOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Evaluate on tasks of the lm-evaluation-harness (the extra lm-eval)."""
    choose(method, ("chain", "bound"), "method")
    # After our own module, which says in one sentence how to install the harness.
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager
    from lm_eval.utils import make_table

    from anyorder.integrations.lm_eval import AnyorderLM

    names = [name for name in tasks.split(",") if name]
    missing = [name for name in names if name.endswith(".yaml") and not Path(name).is_file()]
    if missing or not names:
        raise AnyorderError(f"there is no task file {missing[0] if missing else tasks!r}: name tasks or their files")

    def known(manager: Any) -> bool:
        return all(name.endswith(".yaml") or manager.match_tasks([name]) for name in names)

    # Reading the harness's own thousands of task files takes most of a minute: only if they are needed.
    own = str(include_path) if include_path else None
    manager = TaskManager(include_path=own, include_defaults=False)
    if not known(manager):
        manager = TaskManager(include_path=own)
        if not known(manager):
            raise AnyorderError(f"not all of {tasks} are tasks: see lm_eval --tasks list, or give --include-path")
    lm = AnyorderLM(load_model(model, allow_pickle, trust_remote_code), method=method, samples=samples, seed=seed)
    results: Any = simple_evaluate(
        model=lm,
        tasks=list(names),
        num_fewshot=num_fewshot,
        limit=int(limit) if limit is not None and limit >= 1 else limit,
        use_cache=str(use_cache) if use_cache else None,
        task_manager=manager,
        log_samples=False,
        bootstrap_iters=1000,
        random_seed=seed,
        numpy_random_seed=seed,
        torch_random_seed=seed,
        fewshot_random_seed=seed,
    )
    if json:
        rows = [{"task": name, **_plain(values)} for name, values in results["results"].items()]
        settings = {"model": lm.lm.name, "method": method, "samples": samples, "limit": limit, "seed": seed}
        print_json({"rows": rows, "settings": settings | {"num_fewshot": num_fewshot}})
    else:
        print(make_table(results))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Metric names without the harness's filter suffix (``acc,none``)."""
    return {name.removesuffix(",none"): value for name, value in values.items() if name != "alias"}
