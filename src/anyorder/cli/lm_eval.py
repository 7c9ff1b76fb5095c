"""`anyorder lm-eval`: any masked LM under EleutherAI's lm-evaluation-harness."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyorder.cli.common import JsonOption, ModelOptions, command, load_model, print_json
from anyorder.errors import AnyorderError
from anyorder.options import Options, option


@dataclass(frozen=True, kw_only=True)
class LmEvalOptions(Options):
    """Of :class:`anyorder.integrations.lm_eval.AnyorderLM` and of the harness."""

    tasks: str = option(..., "Names of tasks, with commas between, or paths of task files (.yaml).")
    method: str = option(
        "chain", "chain: exact, left to right; bound: any-order, estimated.", choices=("chain", "bound")
    )
    samples: int = option(16, "Masks per text of the bound.", least=2)
    num_fewshot: int | None = option(None, "Solved examples in the prompt.", least=0)
    limit: float | None = option(None, "At most this many documents per task; below 1, that share.", above=0)
    include_path: Path | None = option(None, "A folder of further task files.")
    use_cache: Path | None = option(None, "Cache of answers, read and added to; of each model and method its own.")
    seed: int = option(0, "Seed of every random choice.", least=0, most=2**32 - 1)  # numpy's largest

    @property
    def names(self) -> list[str]:
        """The tasks; a file that is not there is refused."""
        names = [name for name in self.tasks.split(",") if name]
        missing = [name for name in names if name.endswith(".yaml") and not Path(name).is_file()]
        if missing or not names:
            named = missing[0] if missing else self.tasks
            raise AnyorderError(f"there is no task file {named!r}: name tasks or their files")
        return names


@command("anyorder lm-eval --tasks lambada_openai,wikitext --limit 100")
def lm_eval(options: LmEvalOptions, model: ModelOptions, json: JsonOption = False) -> None:
    """Evaluate on tasks of the lm-evaluation-harness (the extra lm-eval)."""
    names = options.names
    if find_spec("lm_eval") is None:
        raise AnyorderError("lm-eval is not installed: pip install 'anyorder[lm-eval]'")
    from anyorder.models.hub import offline_if_unreachable

    offline = offline_if_unreachable()  # before the harness is imported, which reads the setting once
    from lm_eval import simple_evaluate
    from lm_eval.utils import make_table

    from anyorder.integrations.lm_eval import AnyorderLM

    manager = _manager(names, options, offline)
    lm = AnyorderLM(load_model(model), method=options.method, samples=options.samples, seed=options.seed)
    limit, seed = options.limit, options.seed
    try:
        results: Any = simple_evaluate(
            model=lm,
            tasks=list(names),
            num_fewshot=options.num_fewshot,
            limit=int(limit) if limit is not None and limit >= 1 else limit,
            use_cache=None if options.use_cache is None else cache_of(options, lm.lm.name, model.dtype),
            task_manager=manager,
            log_samples=False,
            bootstrap_iters=1000,
            random_seed=seed,
            numpy_random_seed=seed,
            torch_random_seed=seed,
            fewshot_random_seed=seed,
        )
    except OSError as error:  # ConnectionError and OfflineModeIsEnabled are of this kind
        why = "the Hugging Face hub is not reachable" if offline else " ".join(str(error).split())
        raise AnyorderError(
            f"cannot load the data of {options.tasks} ({why}): connect once, or name a task file whose data is local"
        ) from error
    if json:
        rows = [{"task": name, **_plain(values)} for name, values in results["results"].items()]
        settings = {"model": lm.lm.name, **asdict(options), "include_path": None, "use_cache": None}
        print_json({"rows": rows, "settings": settings})
    else:
        print(f"{lm.lm.name}, {options.method}, seed {seed}, limit {limit}, {options.num_fewshot or 0}-shot")
        print(make_table(results))


def cache_of(options: LmEvalOptions, model: str, dtype: str) -> str:
    """The beginning of the cache's name: the harness knows an answer by its question alone, not by who gave it."""
    decides = repr((model, dtype, options.method, options.samples, options.seed))
    return f"{options.use_cache}-{blake2b(decides.encode(), digest_size=6).hexdigest()}"


def _manager(names: list[str], options: LmEvalOptions, offline: bool) -> Any:
    """The harness's index of tasks. Reading its own thousands of files takes most of a minute: only if needed."""
    from lm_eval.tasks import TaskManager

    own = str(options.include_path) if options.include_path else None
    for defaults in (False, True):
        if defaults and offline and not _any_data():
            raise AnyorderError(
                f"the data of {options.tasks} is not here and the Hugging Face hub is not reachable: connect once, or "
                "name a task file whose data is local"
            )
        manager = TaskManager(include_path=own, include_defaults=defaults)
        if all(name.endswith(".yaml") or manager.match_tasks([name]) for name in names):
            return manager
    raise AnyorderError(f"not all of {options.tasks} are tasks: see lm_eval --tasks list, or give --include-path")


def _any_data() -> bool:
    """Whether any dataset was ever downloaded."""
    from datasets.config import HF_DATASETS_CACHE
    from huggingface_hub.constants import HF_HUB_CACHE

    return any(Path(HF_HUB_CACHE).glob("datasets--*")) or any(Path(HF_DATASETS_CACHE).glob("*/"))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Metric names without the harness's filter suffix (``acc,none``)."""
    return {name.removesuffix(",none"): value for name, value in values.items() if name != "alias"}
