"""Liao et al.'s Tables 5 to 7: every model on every task, several seeds, each compared with BERT.

Runs are cells of a journal, one line per model, task and seed with every prediction; the table is made from the
journal alone. A killed run loses the cell it was at.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from anyorder.errors import AnyorderError, choose
from anyorder.files.journal import Journal
from anyorder.metrics.bootstrap import bootstrap, middle, replicates
from anyorder.metrics.glue import Numbers, glue_average
from anyorder.stats import Interval, Record
from anyorder.studies.options.understanding import LearningOptions, UnderstandingOptions
from anyorder.studies.understanding.labels import Labels
from anyorder.studies.understanding.learning import learn, read_job
from anyorder.studies.understanding.multi_task import learn_together
from anyorder.studies.understanding.outcome import Outcome
from anyorder.studies.understanding.spans import Spans
from anyorder.studies.understanding.tasks import SQUAD, chosen

LARGE = 10_000  # training examples of a task that is run with fewer seeds
AVERAGE, BASELINE, STAR = "average", "majority", "*"
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Row(Record):
    """One model on one metric of one test set, in percent.

    Attributes:
        model: its name; a * behind it says that it learnt all tasks together first. ``majority`` always gives the
            commonest label (SQuAD 2.0: no answer).
        task: the test set, or ``average``, GLUE's.
        metric: its name.
        value: the mean over seeds, with its 95 % interval ``low`` to ``high`` over examples and seeds.
        spread: standard deviation over seeds; None of one.
        difference: to the model compared with, on the same examples, with its 95 % interval; None of that model.
        seeds: runs.
        examples: measured on.
        train: learnt from.
        cut: texts longer than the model.
    """

    model: str
    task: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    seeds: int = 0
    examples: int = 0
    train: int = 0
    cut: int = 0


def journal_settings(options: UnderstandingOptions) -> dict[str, Any]:
    """All that decides a cell but its model, task and seed: a journal may grow by those, and on any device."""
    names = [one.name for one in fields(LearningOptions) if one.name != "device"]
    values = {name: getattr(options, name) for name in (*names, "seed")}
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}


def run_cells(
    models: Mapping[str, str], options: UnderstandingOptions, journal: Journal, progress: Progress | None = None
) -> None:
    """Fill ``journal`` with every cell it lacks."""
    _check_records(models, options, journal)
    done = _done(journal)
    jobs = {task: read_job(task, options) for task in chosen(options.tasks)}
    for task, job in jobs.items():
        for name, path in models.items():
            for seed in _seeds(job, options):
                if (name, task, seed) not in done:
                    _run_cell(name, path, path, task, job, seed, options, journal, progress)
    if options.multi_task:
        for name, path in models.items():
            _run_together(name, path, jobs, options, journal, progress)


def _check_records(models: Mapping[str, str], options: UnderstandingOptions, journal: Journal) -> None:
    """Refuse, before any work, cells of another model of the same name, or that learnt other tasks together."""
    if options.against is not None:
        stars = [name + STAR for name in models] if options.multi_task else []
        there = [record["model"] for record in journal.records]
        choose(options.against, dict.fromkeys((*models, *stars, *there)), "model to compare with")
    for record in journal.records:
        known = models.get(record["model"].removesuffix(STAR))
        if known not in (None, record["path"]):
            raise AnyorderError(
                f"{journal.path} was begun with {record['model']} from {record['path']}, not {known}: give the other "
                "model another name, or begin anew with --overwrite"
            )
        together = record.get("together")
        if known is not None and options.multi_task and together not in (None, chosen(options.tasks)):
            raise AnyorderError(
                f"{record['model']} in {journal.path} learnt {', '.join(together)} together: repeat these --tasks, or "
                "choose another --out"
            )


def _done(journal: Journal) -> set[tuple[str, str, int]]:
    """The cells that are there: model, task, seed."""
    return {(record["model"], record["task"], record["seed"]) for record in journal.records}


def _seeds(job: Labels | Spans, options: UnderstandingOptions) -> range:
    count = min(options.seeds, options.large_seeds) if len(job.train) > LARGE else options.seeds
    return range(options.seed, options.seed + count)


def _run_cell(
    name: str, path: str, start: str, task: str, job: Labels | Spans, seed: int, options: UnderstandingOptions,
    journal: Journal, progress: Progress | None, together: Sequence[str] = (),
) -> None:  # fmt: skip
    report = partial(progress, f"{name} {task} {seed}") if progress is not None else None
    learned = learn(job, start, options, seed, report)
    outcomes = [outcome.to_dict() for outcome in learned.outcomes]
    record = {"model": name, "path": path, "task": task, "seed": seed, "seconds": learned.seconds}
    journal.add({**record, **({"together": list(together)} if together else {}), "outcomes": outcomes})


def _run_together(
    name: str, path: str, jobs: Mapping[str, Labels | Spans], options: UnderstandingOptions, journal: Journal,
    progress: Progress | None,
) -> None:  # fmt: skip
    """All tasks together, then each alone from there; the checkpoints between go when their cells are done."""
    star = name + STAR
    for seed in range(options.seed, options.seed + options.seeds):
        done = _done(journal)
        missing = [t for t, job in jobs.items() if seed in _seeds(job, options) and (star, t, seed) not in done]
        if not missing:
            continue
        # What a run with other settings left behind has another name.
        decides = repr((journal_settings(options), list(jobs), path, seed))
        folder = journal.path.parent / f"{name}-together-{blake2b(decides.encode(), digest_size=6).hexdigest()}"
        report = partial(progress, f"{star} together {seed}") if progress is not None else None
        places = learn_together(jobs, path, options, seed, folder, report)
        for task in missing:
            start = str(places[task])
            _run_cell(star, path, start, task, jobs[task], seed, options, journal, progress, list(jobs))
        shutil.rmtree(folder)


Runs = dict[str, dict[str, list[Outcome]]]  # model -> test set -> one outcome per seed


def table(records: Iterable[Mapping[str, Any]], against: str | None = None) -> list[Row]:
    """The rows of all models in a journal, each compared with ``against`` where both were run.

    The baselines come first, then the models in the order of the journal, with GLUE's average of the tasks all of them
    have.
    """
    runs: Runs = {}
    for record in records:
        for given in record["outcomes"]:
            outcome = Outcome.from_dict(given)
            runs.setdefault(record["model"], {}).setdefault(outcome.task, []).append(outcome)
    reference = _reference(list(runs), against)
    shared = [task for task in next(iter(runs.values()), {}) if all(task in tasks for tasks in runs.values())]
    glue = [task for task in shared if task != SQUAD]
    firsts = {task: outcomes[0] for tasks in runs.values() for task, outcomes in tasks.items()}
    rows = [
        Row(BASELINE, task, metric, one.baseline[metric], examples=one.examples, train=one.train)
        for task, one in firsts.items()
        for metric in one.metrics
    ]
    if glue:
        average = glue_average({task: list(firsts[task].baseline.values()) for task in glue})
        rows.append(Row(BASELINE, AVERAGE, "glue", average))
    for model, tasks in runs.items():
        other = runs[reference] if model != reference else {}
        for task, outcomes in tasks.items():
            rows += [_row(model, task, metric, outcomes, other.get(task, [])) for metric in outcomes[0].metrics]
        if glue:
            rows.append(_average(model, {task: tasks[task] for task in glue}, {t: other[t] for t in glue if other}))
    return rows


def _reference(models: Sequence[str], against: str | None) -> str:
    if against is not None:
        return choose(against, models, "model to compare with")
    return next((model for model in models if model.lower() == "bert"), models[0])


def _row(model: str, task: str, metric: str, outcomes: list[Outcome], other: list[Outcome]) -> Row:
    if other and not all(one.same_examples(other[0]) for one in outcomes):
        raise AnyorderError(f"{model} was measured on other examples of {task} than what it is compared with: run anew")
    n = outcomes[0].examples
    mine, theirs = ([one.statistic(metric) for one in side] for side in (outcomes, other))
    each = [one.value(metric) for one in outcomes]
    difference = bootstrap(mine, n, theirs) if other else None
    row = _row_of((model, task, metric), bootstrap(mine, n), each, difference)
    return replace(row, examples=n, train=outcomes[0].train, cut=outcomes[0].cut)


def _average(model: str, tasks: dict[str, list[Outcome]], other: dict[str, list[Outcome]]) -> Row:
    """GLUE's average; a replicate of it is the average of one replicate per test set."""

    def drawn(against: Mapping[str, Sequence[Outcome]]) -> Numbers:
        parts: dict[str, list[Numbers]] = {}
        for number, (task, outcomes) in enumerate(tasks.items()):
            mine, theirs = ([one.mean_statistic() for one in side] for side in (outcomes, against.get(task, ())))
            parts[task] = [replicates(mine, outcomes[0].examples, theirs, seed=number)]
        return glue_average(parts)

    seeds = min(len(outcomes) for outcomes in tasks.values())
    value = _mean_average(tasks)
    each = [_mean_average({task: [outcomes[i]] for task, outcomes in tasks.items()}) for i in range(seeds)]
    difference = middle(value - _mean_average(other), drawn(other)) if other else None
    return _row_of((model, AVERAGE, "glue"), middle(value, drawn({})), each, difference)


def _mean_average(tasks: Mapping[str, Sequence[Outcome]]) -> float:
    return glue_average(
        {
            task: [float(np.mean([one.value(metric) for one in outcomes])) for metric in outcomes[0].metrics]
            for task, outcomes in tasks.items()
        }
    )


def _row_of(key: tuple[str, str, str], value: Interval, each: Sequence[float], difference: Interval | None) -> Row:
    """``key``: the model, the task, the metric."""
    spread = float(np.std(each, ddof=1)) if len(each) > 1 else None
    row = Row(*key, value.value, value.low, value.high, spread, seeds=len(each))
    if difference is None:
        return row
    return replace(row, difference=difference.value, difference_low=difference.low, difference_high=difference.high)
