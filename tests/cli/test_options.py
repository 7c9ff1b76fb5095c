"""Every option of every command reaches the functions behind it.

Commands run with stand-ins for the model and for what does the work. Each option is given a value beside its default:
what the stand-ins are called with must differ, and nothing else was changed. An option that is added to a command, or
deleted from it, fails here until the table below says so too.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import GeneratorType
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer

from anyorder.cli import app
from anyorder.errors import AnyorderError
from anyorder.options import Options
from anyorder.studies import options as study_options
from anyorder.studies.options.likelihood import PairwiseOptions
from anyorder.tasks import options as task_options
from anyorder.tasks.generate import plan
from anyorder.tasks.lm import MaskedLM

LOAD = ["--device cuda:1", "--dtype bfloat16", "--allow-pickle", "--trust-remote-code"]
MODEL = ["--model a/folder", *LOAD]
RAY = "!anyorder.integrations.ray.pool"


def files(needed: str, out: str) -> list[str]:
    """The options of files of texts; ``needed`` names one."""
    options = ["--column 2", "--format tsv", f"--out {out}", f"--resume @ --out {out}", "--overwrite", "--engine ray",
               "--address auto @ --engine ray", "--workers 2 @ --engine ray"]  # fmt: skip
    return [f"{one.partition(' @ ')[0]} @@ {needed} {one.partition(' @ ')[2]}" for one in options]


WORLD = ["--world random", "--n 3", "--coupling 0.7", "--vocab 3 @ --world random", "--seed 7 @ --world random"]
SMALL_WORLD = [f"{one} {'' if '@' in one else '@'} --masks 2" for one in WORLD]
TUNED = "--data more.txt --finetune-steps 2"
LEARNING = ["--data-dir corpus", "--epochs 2", "--lr 0.25", "--batch 8", "--max-length 9", "--stride 5",
            "--train-limit 6", "--test-limit 4", "--from-dev 0.75", "--device cpu", "--dtype bfloat16",
            "--seed 7"]  # fmt: skip


class Reached(Exception):
    """The work was about to begin."""


@dataclass(frozen=True)
class Command:
    """How a command is watched.

    Attributes:
        work: the functions it calls, with stand-ins in their place (behind a * the function itself, watched); the last
            one ends the command, and so does one behind a !.
        needed: arguments without which it does not run.
        options: every option, with a value that is not its default; behind an @, others that must be there with it;
            behind @@, those that stand in place of what is needed.
        printed: options that act on what is printed after the work: a test elsewhere names each of them.
    """

    work: str
    needed: str
    options: list[str]
    printed: tuple[str, ...] = ("--json",)


COMMANDS = {
    "fill": Command(
        "anyorder.tasks.alone.alone anyorder.files.reading.Source anyorder.files.journal.Results "
        f"{RAY} anyorder.tasks.fill.fill",
        "TEXT",
        ["--top 2", "--method joint", "--order entropy", "--beam 3", "--samples 4 @ --method sample",
         "--tail 0.25 @ --method joint", "--seed 7", "--any-pieces", "--special-tokens", "--allow-unknown", "--alone",
         "--file others.txt @@ --file texts.txt", *files("--file texts.txt", "filled.jsonl"), *MODEL],
    ),
    "generate": Command(
        "anyorder.files.reading.Source anyorder.files.journal.Results !anyorder.tasks.generate.generate "
        f"{RAY} anyorder.tasks.generate.plan",
        "",
        ["--length 9", "--prompt one", "--given six", "--begin two", "--end three", "--scatter four", "--acrostic five",
         "--order entropy", "--speculate 4", "--steps 3", "--sampler gibbs", "--block 2 @ --sampler gibbs",
         "--mode sequential @ --sampler gibbs", "--influence attention @ --sampler adaptive",
         "--blocks 2 @ --sampler adaptive", "--threshold 0.25 @ --sampler adaptive",
         "--sharpness 3 @ --sampler adaptive", "--schedule cosine",
         "--epsilon 0.5", "--start random", "--draft one @ --sampler refine", "--pairs",
         "--reading full", "--temperature 0.5", "--top-k 3", "--top-p 0.5", "--min-p 0.25",
         "--typical 0.75", "--samples 2", "--seed 7", "--allow-unknown", "--file others.txt @@ --file texts.txt",
         *files("--file texts.txt", "written.jsonl"), *MODEL],
        ("--json", "--trace", "--animate"),
    ),
    "score": Command(
        f"anyorder.files.reading.Source anyorder.files.journal.Results {RAY} anyorder.tasks.score.score",
        "texts.txt",
        ["--method bound", "--order random", "--samples 3 @ --method bound", "--reading full", "--per-token",
         "--stride 5", "--strict", "--seed 7", *files("texts.txt", "scores.tsv"), *MODEL],
    ),
    "joint": Command(
        "anyorder.cli.joint.check_plot_path anyorder.tasks.joint.text_joints",
        "TEXT",
        ["--method ag", "--tail 0.25", "--special-tokens", "--allow-unknown", "--seed 7", "--plot heat.png", "--top 2",
         *MODEL],
    ),
    "compare": Command(
        "anyorder.studies.minimal_pairs.read_pairs anyorder.studies.minimal_pairs.accuracies",
        "--data pairs.jsonl",
        ["--data others.jsonl", "--method bound", "--samples 3", "--limit 4", "--seed 7", *MODEL],
    ),
    "compatibility": Command(
        "anyorder.tasks.compatibility.chosen_pairs anyorder.tasks.compatibility.compatibilities",
        "TEXT",
        ["--top 3", "--scheme random", "--examples 3", "--special-tokens", "--seed 7", *MODEL],
    ),
    "diagnose": Command(
        "anyorder.cli.diagnose.check_output anyorder.files.reading.Source anyorder.studies.diagnose.diagnose",
        "--data texts.txt",
        ["--data others.txt", "--column 2", "--out page.html", "--overwrite", "--texts 3", "--length 9", "--pairs 5",
         "--budget 0.5", "--chain-texts 1", "--chains 6", "--sweeps 9", "--samples 5", "--temperature 0.5", "--seed 7",
         *MODEL],
    ),
    "certify": Command(
        "anyorder.cli.certify.check_plot_path anyorder.studies.certify.certify",
        "",
        ["--sampler gibbs", "--draws 20", "--repeats 3", "--seed 7", "--plot verdict.png"],
    ),
    "train": Command(
        "anyorder.training.recipe.load_recipe anyorder.studies.distill.distilled anyorder.training.trainer.train",
        "recipe.yaml",
        ["--set optim.lr=1", "--seed 7", "--data-dir corpus", "--device cuda:1", "--dtype float32", "--resume",
         "--quiet", "--distill a/folder"],
        (),
    ),
    "serve": Command(
        "anyorder.serve.run.serve",
        "",
        ["--host localhost", "--port 9", "--api-key-file key.txt", "--no-key", "--cors https://a.org", "--queue 3",
         "--seconds 2.5", "--drain 1.5", "--body 2048", *MODEL],
        (),
    ),
    "translate": Command(
        f"anyorder.files.reading.Source anyorder.files.journal.Results {RAY} anyorder.tasks.translate.translate",
        "TEXT",
        ["--steps 3", "--lengths 2", "--length-law text", "--must one", "--must-repeat", "--sampler gibbs",
         "--order random @ --sampler any-order", "--block 2 @ --sampler gibbs", "--mode sequential @ --sampler gibbs",
         "--influence source @ --sampler adaptive", "--pairs @ --sampler parallel --draw",
         "--schedule cosine @ --sampler parallel", "--epsilon 0.5 @ --sampler parallel", "--start random", "--repair 2",
         "--draw", "--temperature 0.5 @ --draw", "--reading full", "--trace", "--seed 7",
         "--file others.txt @@ --file texts.txt", *files("--file texts.txt", "done.jsonl"), *MODEL],
    ),
    "lm-eval": Command(
        "anyorder.models.hub.offline_if_unreachable lm_eval.tasks.TaskManager "
        "anyorder.integrations.lm_eval.AnyorderLM lm_eval.simple_evaluate",
        "--tasks one",
        ["--tasks two", "--method bound", "--samples 3", "--num-fewshot 2", "--limit 3", "--include-path tasks",
         "--use-cache answers", "--seed 7", *MODEL],
    ),
    "evaluate characters": Command(
        "anyorder.studies.characters.paragraphs anyorder.studies.characters.per_character",
        "--data texts.txt",
        ["--data others.txt", "--held-out more.txt", "--share 0.25 @ --held-out more.txt", "--samples 3", "--limit 4",
         "--seed 7", *MODEL],
    ),
    "evaluate curves": Command(
        "anyorder.cli.evaluate_curves.check_plot_path anyorder.studies.curves.read_curve",
        "a=here",
        ["--plot curves.png"],
    ),
    "evaluate generation": Command(
        "anyorder.cli.evaluate_generation.check_output anyorder.studies.judge.load_judge "
        "anyorder.studies.generation.masked_writers anyorder.studies.generation.real_texts "
        "anyorder.studies.generation.study",
        "",
        ["--steps 3", "--length 9", "--texts 5", "--samplers gibbs", "--schedules cosine",
         "--order random", "--judge gpt", "--corpus more.txt",
         "--temperature 0.5", "--seed 7", "--out results", "--overwrite @ --out results", *MODEL],
    ),
    "evaluate latency": Command(
        "anyorder.studies.causal.is_causal anyorder.training.tokenizer.load_tokenizer anyorder.tasks.pieces.affixes "
        "anyorder.studies.judge.load_judge anyorder.studies.generation.masked_writers "
        "anyorder.studies.generation.causal_writer anyorder.studies.generation.study",
        "--judge gpt",
        ["--models a=b", "--judge other", "--texts 5", "--length 12", "--batch 5", "--steps 3", "--seed 7", *LOAD],
    ),
    "evaluate pairwise": Command(
        "anyorder.cli.evaluate_pairwise.check_plot_path anyorder.tasks.syntax.load_parser "
        "anyorder.files.journal.Journal anyorder.tasks.pairs.draw_examples anyorder.studies.pairwise.run",
        "--data texts.txt",
        ["--data others.txt", "--scheme contiguous", "--examples 3", "--each 4", "--method ag", "--size 3",
         "--support 5 @ --size 3", "--tail 0.25",
         "--parser other @ --distance syntactic", "--out log.jsonl", "--resume", "--overwrite", "--plot distance.png",
         "--seed 7", *MODEL],
        ("--json", "--distance"),
    ),
    "evaluate perplexity": Command(
        "anyorder.studies.finetune.finetune anyorder.studies.perplexity.evaluate",
        "--test texts.txt",
        ["--models a=b", "--test others.txt", f"--data others.txt @ {TUNED}", "--finetune-steps 3 @ --data more.txt",
         f"--finetune-rate 0.5 @ {TUNED}", f"--padding predicted @ {TUNED}", f"--work here @ {TUNED}", "--unit line",
         "--length 9", "--random bound", "--samples 3", "--limit 4", "--seed 7", *LOAD],
    ),
    "evaluate schedule": Command(
        "anyorder.cli.evaluate_schedule.check_output anyorder.cli.evaluate_schedule.check_plot_path "
        "anyorder.studies.schedule.read_texts anyorder.studies.schedule.measure_curve anyorder.studies.schedule.prices",
        "--data texts.txt",
        ["--data others.txt", "--share 0.25", "--length 9", "--texts 3", "--steps 3", "--out curve.json",
         "--overwrite @ --out curve.json", "--plot curve.png", "--seed 7", *MODEL],
    ),
    "evaluate translation": Command(
        "anyorder.cli.evaluate_translation.check_output anyorder.studies.translation.read_pairs "
        "*anyorder.studies.translation.systems anyorder.studies.target_dependence.target_dependence "
        "anyorder.files.journal.Journal anyorder.studies.translation.study",
        "--data texts.txt",
        ["--data others.txt", "--columns 2,1", "--steps 3", "--ways parallel", "--lengths 3", "--limit 4",
         "--baseline b/folder", "--resamples 5", "--seed 7", "--out results", "--resume @ --out results",
         "--overwrite @ --out results", *MODEL],
        ("--json", "--dependence"),
    ),
    "evaluate understanding": Command(
        "anyorder.files.journal.Journal anyorder.studies.understanding.table.run_cells "
        "anyorder.studies.understanding.table.table",
        "",
        ["--models a=b", "--tasks rte", "--seeds 2", "--large-seeds 2", "--multi-task", "--against other",
         "--out results", "--resume", "--overwrite", *LEARNING],
    ),
    "finetune": Command(
        "anyorder.cli.finetune.check_folder anyorder.studies.understanding.learning.read_job "
        "anyorder.studies.understanding.learning.learn",
        "rte --out results",
        ["--model a/folder", "--out others", "--overwrite", *LEARNING],
    ),
    "lab mixing": Command(
        "*anyorder.chains.worlds.make_world anyorder.cli.lab.check_plot_path anyorder.studies.lab.mixing_study",
        "",
        [*WORLD, "--block 3", "--kernel gibbs", "--plot mixing.png"],
    ),
    "lab efficiency": Command(
        "*anyorder.chains.worlds.make_world anyorder.cli.lab.check_plot_path anyorder.studies.lab.efficiency_row",
        "",
        [*SMALL_WORLD, "--masks 2", "--loss token", "--samples 3", "--repeats 4", "--plot efficiency.png"],
    ),
    "lab parallel": Command(
        "*anyorder.chains.worlds.make_world anyorder.cli.lab.check_plot_path anyorder.studies.lab.parallel_row "
        "anyorder.chains.stutter.stutter_rates",
        "",
        [*WORLD, "--block 3", "--stutter-n 3", "--stutter-coupling 2", "--temperature 0.5", "--plot parallel.png"],
    ),
}  # fmt: skip
FILES = ("texts.txt", "others.txt", "more.txt", "pairs.jsonl", "others.jsonl", "recipe.yaml")


@cache
def whole_command() -> Any:
    """The command line as click sees it; making it takes longer than running it."""
    return typer.main.get_command(app)


def commands(group: Any = None, before: str = "") -> dict[str, Any]:
    """Every command that does something, by what one types."""
    group = group or whole_command()
    found = {}
    for name, one in group.commands.items():
        found |= commands(one, f"{before}{name} ") if hasattr(one, "commands") else {before + name: one}
    return found


def names_of(command: Any) -> set[str]:
    """One name per option of a command."""
    return {
        next(o for o in p.opts + p.secondary_opts if o.startswith("--")) for p in command.params if p.opts[0][0] == "-"
    }


def leaves(value: Any, key: object) -> set[str]:
    """What an argument holds, field by field; not what is merely written down as settings."""
    if isinstance(value, Options | task_options.Options) or is_dataclass(value):
        return set().union(*(leaves(getattr(value, f.name), f.name) for f in fields(value)))
    if isinstance(value, list | tuple):
        return (
            {f"{key}: {value!r}"}
            if not any(map(is_dataclass, value))
            else set().union(*(leaves(v, key) for v in value))
        )
    plain = str | int | float | bool | Path | None
    return {f"{key}: {value!r}"} if isinstance(value, plain) or str(value).startswith("torch.") else set()


def told(monkeypatch: pytest.MonkeyPatch, name: str, arguments: str) -> set[str]:
    """What the stand-ins of a command are called with."""
    parent = MagicMock()
    model = MagicMock(max_length=64)
    model.name, model.conditionals.vocab_size = "model", 50
    returns: dict[str, Any] = {
        "load": model, "is_causal": False, "affixes": ((), ()), "Source": ["a text"], "offline_if_unreachable": False,
        "parallel_row": MagicMock(coupling=0.5), "Results": MagicMock(written=0),
    }  # fmt: skip

    def reached(*args: Any, **_: Any) -> None:
        for one in args:
            if isinstance(one, GeneratorType):
                list(one)
        raise Reached

    *before, last = ["anyorder.load", *COMMANDS[name].work.split()]
    with monkeypatch.context() as patch:
        for path in [*before, last]:
            target = path.lstrip("*!")
            short = target.rpartition(".")[2]
            module, _, attribute = target.rpartition(".")
            real = getattr(__import__(module, fromlist=[attribute]), attribute)
            stand_in = (
                MagicMock(wraps=real) if path[0] == "*" else MagicMock(return_value=returns.get(short, MagicMock()))
            )
            stand_in.side_effect = reached if path == last or path[0] == "!" else None
            parent.attach_mock(stand_in, short)
            if short in ("Results", "Journal"):
                parent.attach_mock(stand_in.return_value, short + "s")
            patch.setattr(target, stand_in)
        with pytest.raises(Reached):
            whole_command().main([*name.split(), *arguments.split()], standalone_mode=False)
    seen: set[str] = set()
    for called, args, keywords in parent.mock_calls:
        seen |= {called}.union(*(leaves(a, f"{called} {i}") for i, a in enumerate(args)))
        seen |= set().union(*(leaves(a, f"{called} {k}") for k, a in keywords.items()))
    return seen


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with the files the commands look for."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).write_text("a text\n")
    return tmp_path


def test_the_table_names_every_option_of_every_command() -> None:
    found = commands()
    assert set(found) == set(COMMANDS)
    for name, command in found.items():
        listed = {option.split()[0] for option in COMMANDS[name].options} | set(COMMANDS[name].printed)
        listed = {"--whole-words" if option == "--any-pieces" else option for option in listed}
        assert listed == names_of(command) - {"--help"}, name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_reaches_its_function(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "lm-eval":
        pytest.importorskip("lm_eval", reason="the extra lm-eval is not installed")
    plain = cache(lambda arguments: told(monkeypatch, name, arguments))
    for option in COMMANDS[name].options:
        given, _, instead = option.partition(" @@ ")
        given, _, beside = given.partition(" @ ")
        without = instead or f"{COMMANDS[name].needed} {beside}"
        value = given.split()[-1]
        arrived = told(monkeypatch, name, f"{without} {given}")
        assert arrived != plain(without), f"{name} {given} arrives nowhere"
        if value[0] != "-":
            expected = {"a=b": "b", "float32": "fp32", "ray": "pool"}.get(value, value)
            assert any(expected in one for one in arrived), f"{name} {given}: {arrived}"


def test_what_is_printed_is_tested_by_name() -> None:
    here = Path(__file__)
    sources = "".join(f.read_text() for f in here.parents[1].rglob("test_*.py") if f != here)
    for option in {o for command in COMMANDS.values() for o in command.printed}:
        assert f'"{option}"' in sources


# --- the definitions themselves ------------------------------------------------------------------------------------


def definitions() -> list[type[Any]]:
    studies = [import_module(f"{study_options.__name__}.{file.name}") for file in iter_modules(study_options.__path__)]
    return [
        one
        for module in (task_options, *studies)
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, Options) and one is not Options
    ]


@pytest.mark.parametrize("options", definitions(), ids=lambda one: one.__name__)
def test_every_field_has_a_sentence(options: type[Any]) -> None:
    for field in fields(options):
        assert re.fullmatch(r"\S.*[.)]", field.metadata["help"]), field.name


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fill", "FillOptions"),
        ("generate", "GenerateOptions"),
        ("score", "ScoreOptions"),
        ("joint", "JointOptions"),
        ("translate", "TranslateOptions"),
    ],
)
def test_the_facade_shows_the_same_options(method: str, options: str) -> None:
    shown = inspect.signature(getattr(MaskedLM, method)).parameters
    for field in fields(getattr(task_options, options)):
        assert shown[field.name].default == field.default
        assert field.metadata["help"] in (getattr(MaskedLM, method).__doc__ or "")


def test_what_generates_takes_the_same_options() -> None:
    taken = inspect.signature(plan).parameters
    assert set(taken) - {"lm"} == {one.name for one in fields(task_options.GenerateOptions)}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: task_options.FillOptions(top=0), "top must be at least 1, not 0"),
        (lambda: task_options.FillOptions(seed=2**64), "seed must be at most"),
        (lambda: task_options.FillOptions(tail=0.5), "'beam' has no tail: leave it out, or choose --method joint"),
        (lambda: task_options.FillOptions(samples=8), "'beam' has no samples: leave it out, or choose --method sample"),
        (lambda: task_options.FillOptions(method="sample", beam=8), "'sample' has no beam"),
        (lambda: task_options.FillOptions(method="joint", order="random"), "'joint' has no order"),
        (lambda: task_options.GenerateOptions(block=0), "block must be at least 1"),
        (lambda: task_options.GenerateOptions(sampler="any-order", block=3), "has no --block"),
        (lambda: task_options.GenerateOptions("\ud800"), "not valid Unicode"),
        (lambda: task_options.ScoreOptions("chian"), "did you mean 'chain'"),
        (lambda: PairwiseOptions(tail=0.5, method=("hcb",)), "ag and mlm"),
    ],
)
def test_wrong_values_are_refused_by_the_definition(make: Any, says: str) -> None:
    with pytest.raises(AnyorderError, match=says):
        make()
