"""`anyorder translate`, `evaluate translation` and `train --distill` from the shell."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from anyorder.cli import files
from anyorder.errors import AnyorderError
from anyorder.training.recipe import DataRecipe, Recipe
from running import anyorder
from tiny import tiny_translator

TEXTS = ["der hund", "die tür ist rot", "", "guten tag!", "das alte haus", "ja"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny_translator(tmp_path_factory.mktemp("translator")))


@pytest.fixture
def command(monkeypatch, capsys, model):
    def call(*arguments):
        return anyorder(monkeypatch, capsys, *arguments, "--model", model)

    return call


def test_a_text_in_several_numbers_of_steps(command):
    status, out, err = command("translate", "der hund", "--steps", "1,2", "--trace", "--lengths", "2", "--must", "dog")
    assert (status, err) == (0, "")
    assert "   0  _" in out
    assert out.count("  or  ") == 2 * 5  # two lengths, three places each, for two numbers of steps, less the best
    status, out, _ = command("translate", "der hund", "--steps", "1,2", "--json", "--must", "dog")
    rows = json.loads(out)
    assert [row["steps"] for row in rows] == [1, 2]
    assert all(row["text"].split().count("dog") == 1 for row in rows)


def test_a_killed_run_resumes_to_the_same_bytes(command, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "WINDOW", 2)
    texts, whole, part = tmp_path / "texts.txt", tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    texts.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    drawn = ("--draw", "--seed", "3", "--lengths", "2", "--sampler", "parallel", "--steps", "2")
    assert command("translate", "--file", str(texts), "--out", str(whole), *drawn)[0] == 0
    rows = [json.loads(line) for line in whole.read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert rows[2]["translation"] == ""

    import anyorder.tasks.translate as task

    real, calls = task.translate, []

    def killed(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(task, "translate", killed)
    assert command("translate", "--file", str(texts), "--out", str(part), *drawn)[0] == 130
    assert part.read_bytes() != whole.read_bytes()
    monkeypatch.setattr(task, "translate", real)
    assert command("translate", "--file", str(texts), "--out", str(part), "--resume", *drawn)[0] == 0
    assert part.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["translate", " "], "the source is empty"),
        (["translate"], "give either a text or --file"),
        (["translate", "haus " * 60], "takes 242 of the model's 128 tokens"),
        (["translate", "haus", "--must", "日本"], "cannot represent '日本'"),
        (["translate", "haus", "--steps", "none"], "whole numbers from 1"),
        (["translate", "haus", "--block", "3"], "no --block"),
        (["translate", "--file", "texts.txt", "--steps", "1,2"], "one number of steps"),
        (["translate", "--file", "nowhere.txt"], "nowhere.txt"),
        (["evaluate", "translation", "--data", "one.tsv"], "no column 2: put a tab"),
        (["evaluate", "translation", "--data", "nowhere.tsv"], "nowhere.tsv"),
        (["evaluate", "translation", "--data", "two.tsv", "--ways", "magic"], "magic"),
        (["evaluate", "translation", "--data", "two.tsv", "--resume"], "name it with --out"),
    ],
)
def test_bad_input_is_one_line_and_status_2(command, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("haus\n")
    Path("one.tsv").write_text("haus\n")
    Path("two.tsv").write_text("haus\thouse\n")
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_the_study_with_its_files(command, tmp_path):
    (tmp_path / "test.tsv").write_text("der hund\tthe dog is red\ndas haus\tthe old house\n")
    status, out, err = command(
        "evaluate", "translation", "--data", str(tmp_path / "test.tsv"), "--steps", "1,2", "--ways",
        "refine,adaptive-source", "--resamples", "10", "--dependence", "1", "--out", str(tmp_path / "out"), "--json",
    )  # fmt: skip
    assert status == 0, err
    result = json.loads(out)
    assert [(row["way"], row["steps"]) for row in result["rows"]] == [
        ("left-to-right", None), ("refine", 1), ("refine", 2), ("adaptive-source", 1), ("adaptive-source", 2),
    ]  # fmt: skip
    assert result["settings"]["signatures"]["BLEU"].startswith("nrefs:1|case:mixed")
    depends = result["dependence"]
    assert depends["texts"] == 1
    assert depends["given_source"]["value"] > 0
    assert -1 <= depends["attention"]["value"] <= 1
    assert (tmp_path / "out" / "translation.png").stat().st_size > 1000
    assert (tmp_path / "out" / "translation.md").read_text().count("\n") == 7
    assert json.loads((tmp_path / "out" / "translation.json").read_text())["rows"] == result["rows"]


def test_a_stopped_study_goes_on_with_the_next_way(command, tmp_path, monkeypatch):
    from anyorder.studies import translation as module

    (tmp_path / "test.tsv").write_text("der hund\tthe dog is red\ndas haus\tthe old house\n")
    out = tmp_path / "out"
    study = ("evaluate", "translation", "--data", str(tmp_path / "test.tsv"), "--resamples", "10", "--out", str(out))
    real, asked = module.translate, []

    def watched(lm, sources, options):
        asked.append((options.sampler, options.steps, len(sources)))
        if asked.count(("refine", 2, 2)) == 1 and stop:
            raise KeyboardInterrupt
        return real(lm, sources, options)

    monkeypatch.setattr(module, "translate", watched)
    stop = True
    status, _, err = command(*study, "--steps", "1,2")
    assert (status, "2 rows finished; --resume goes on" in err) == (130, True)
    before = json.loads((out / "translation.json").read_text())["rows"]
    assert [(row["way"], row["steps"]) for row in before] == [("left-to-right", None), ("refine", 1)]
    (out / "translation.json").unlink()  # as when it was killed
    assert "--resume" in command(*study, "--steps", "1,2")[2]
    assert "seed 0, not 1" in command(*study, "--steps", "1,2", "--resume", "--seed", "1")[2]
    stop = False
    asked.clear()
    assert command(*study, "--steps", "1,2,4", "--resume")[0] == 0  # more steps than were asked for first
    assert [one for one in asked if one[2] == 2] == [("refine", 2, 2), ("refine", 4, 2)]
    after = json.loads((out / "translation.json").read_text())["rows"]
    assert after[:2] == before
    texts = [json.loads(line)["written"]["texts"] for line in (out / "translations.jsonl").read_text().splitlines()[1:]]
    assert [len(each) for each in texts] == [2] * 4
    settings = (out / "translations.jsonl").read_text().splitlines()[0]
    (out / "translations.jsonl").write_text(settings + '\n{"system": "refine"}\n')
    assert "is not a journal of translations" in command(*study, "--resume")[2]
    (out / "translations.jsonl").write_text('{"settings": {}}\n')
    assert "was begun with" in command(*study, "--resume")[2]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_distilled_targets_are_the_teachers(monkeypatch, capsys, tmp_path, model, dtype):
    """… in the precision of the run."""
    from anyorder.studies import distill

    read = []

    def watched(lm, *args, **options):
        read.append(lm.model.dtype)
        return translate(lm, *args, **options)

    translate = distill.translate
    monkeypatch.setattr(distill, "translate", watched)
    (tmp_path / "pairs.tsv").write_text("der hund\tthe dog\ndas haus\tthe house\n")
    (tmp_path / "recipe.yaml").write_text(
        f"output: {tmp_path / 'run'}\n"
        "data: {files: [pairs.tsv], columns: [1, 2], length: 64, holdout: 0, pack: true}\n"
        f"tokenizer: {{path: {model}}}\n"
        "model: {kind: bert, hidden_size: 8, layers: 1, heads: 1, intermediate: 8}\n"
        "optim: {steps: 1, batch: 1, micro_batch: 1, warmup: 1}\n"
    )
    status, _, err = anyorder(
        monkeypatch, capsys, "train", str(tmp_path / "recipe.yaml"), "--data-dir", str(tmp_path), "--distill", model,
        "--dtype", dtype, "--quiet",
    )  # fmt: skip
    assert status == 0, err
    assert read == [getattr(torch, dtype)]
    lines = (tmp_path / "run" / "distilled" / "pairs.jsonl").read_text().splitlines()
    import anyorder as package

    lm = package.load(model, dtype=dtype)
    wanted = lm.translate(["der hund", "das haus"], sampler="any-order", order="left-to-right", lengths=3)
    assert [json.loads(line)["target"] for line in lines] == [one.text for one in wanted]
    recipe = json.loads((tmp_path / "run" / "final" / "recipe.json").read_text())
    assert recipe["data"]["columns"] == ["source", "target"]


def test_files_of_one_name_are_distilled_apart(monkeypatch, tmp_path):
    from anyorder.studies import distill

    for folder in ("de", "fr"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.tsv").write_text(f"{folder}\tx\n")
    said = lambda lm, texts, *_, first: [SimpleNamespace(source=one, target="", text=one.upper()) for one in texts]  # noqa: E731
    monkeypatch.setattr(distill, "translate", said)
    files = ("de/train.tsv", "fr/train.tsv", "it.tsv")
    (tmp_path / "it.tsv").write_text("it\tx\n")
    recipe = Recipe(output=str(tmp_path / "run"), data=DataRecipe(files=files, columns=("1", "2")))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(AnyorderError, match="in one process"):  # several would write one file
        distill.distilled(recipe, tmp_path, SimpleNamespace(name="teacher"))
    monkeypatch.delenv("WORLD_SIZE")
    made = distill.distilled(recipe, tmp_path, SimpleNamespace(name="teacher"))
    monkeypatch.setenv("WORLD_SIZE", "2")  # what is written already, all of them read
    assert distill.distilled(recipe, tmp_path, SimpleNamespace(name="teacher")) == made
    assert [Path(name).name for name in made.data.files] == ["train-1.jsonl", "train-2.jsonl", "it.jsonl"]
    assert [json.loads(Path(name).read_text())["target"] for name in made.data.files] == ["DE", "FR", "IT"]
