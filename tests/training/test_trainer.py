"""The trainer: the same arithmetic however it is cut into micro-batches, processes and resumptions."""

import json
import math
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM

from anyorder.errors import AnyorderError
from anyorder.files.disk import only_writer
from anyorder.masking import Masker, UniformCount
from anyorder.models.build import build
from anyorder.training.optim import build_optimizers
from anyorder.training.progress import Meter
from anyorder.training.recipe import OptimRecipe, load_recipe
from anyorder.training.trainer import _Run, train
from small_runs import gradients, in_two_processes, same, weights
from warm import ended, started


@pytest.mark.parametrize("normalise", ["sequence", "token", "bound"])
def test_accumulation_changes_nothing(recipe_file, corpus, normalise, tmp_path):
    results = []
    for micro in (8, 32):
        recipe = load_recipe(
            recipe_file(
                output=str(tmp_path / f"run{micro}"),
                model={"dropout": 0.0},
                optim={"batch": 32, "micro_batch": micro, "clip": 0.0},
                objective={"normalise": normalise},
            )
        )
        results.append(gradients(recipe, corpus))
    (loss4, tokens4, four), (loss1, tokens1, one) = results
    assert loss4 == pytest.approx(loss1, rel=1e-6)
    assert tokens4 == tokens1
    assert four.keys() == one.keys()
    for name in one:
        torch.testing.assert_close(four[name], one[name], rtol=1e-4, atol=1e-7)


def test_compiling_changes_nothing(recipe_file, corpus, tmp_path, monkeypatch):
    """Traced forwards and backwards as for a GPU; the C++ that torch would make of it takes a minute and is torch's."""
    traced = []

    def trace(module):
        traced.append(module)
        return compile_(module, backend="aot_eager")

    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", trace)
    # ModernBERT's layers are ours, with gradients written by hand: the hardest to compile.
    results = []
    for compiled in (False, True):
        recipe = load_recipe(
            recipe_file(
                output=str(tmp_path / f"run{compiled}"),
                model={"kind": "modernbert", "dropout": 0.0},
                optim={"batch": 8, "micro_batch": 8, "clip": 0.0},
                run={"compile": compiled},
            )
        )
        results.append(gradients(recipe, corpus))
    assert len(traced) == 1
    (plain_loss, _, plain), (loss, _, found) = results
    assert loss == pytest.approx(plain_loss, rel=1e-6)
    assert found.keys() == plain.keys()
    for name in plain:
        torch.testing.assert_close(found[name], plain[name], rtol=1e-4, atol=1e-7)


def test_two_processes_take_the_step_of_one(recipe_file, corpus, tmp_path):
    """With Muon, whose work they share; with AdamW test_ordered.py and test_two_machines.py do the same."""
    # With eps this large Adam's update is proportional to the gradient: weights after a step compare gradients.
    optim = {"steps": 1, "batch": 8, "micro_batch": 2, "eps": 1.0, "lr": 1.0, "warmup": 0, "clip": 0.0}
    tolerance = 1e-4  # Newton–Schulz enlarges rounding errors
    path = recipe_file(model={"dropout": 0.0}, optim={**optim, "name": "muon"})
    in_two_processes(path, corpus, tmp_path / "two")
    train(load_recipe(path, [f"output={tmp_path / 'one'}"]), data_dir=corpus, quiet=True)
    one, two = weights(tmp_path / "one" / "final"), weights(tmp_path / "two" / "final")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=tolerance)
    readings = [(tmp_path / k / "metrics.jsonl").read_text().splitlines() for k in ("one", "two")]
    for a, b in zip(*readings, strict=True):
        a, b = json.loads(a), json.loads(b)
        assert a["tokens"] == b["tokens"]
        if "loss" in a:
            assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)


KILLED_WHILE_WRITING = """
import os, signal
import anyorder.files.disk
anyorder.files.disk._sync = lambda path: os.kill(os.getpid(), signal.SIGKILL)
from anyorder.cli import main
main()
"""


def test_killed_at_any_moment_it_ends_with_the_same_weights(recipe_file, corpus, tmp_path):
    """kill -9 at a random moment and once while a checkpoint is being written; then on to the end.

    The second kill comes from inside, when the files of a checkpoint are written and before they get their name: from
    outside a busy machine may miss that moment.
    """
    path = recipe_file(optim={"steps": 16}, run={"checkpoint_every": 2})
    folder = tmp_path / "run"
    command = ["train", path, "--data-dir", corpus, "--quiet", "--resume"]
    said = tmp_path / "said.txt"
    threads = torch.get_num_threads()
    whole = train(load_recipe(path, [f"output={tmp_path / 'whole'}", "run.threads=1"]), data_dir=corpus, quiet=True)
    torch.set_num_threads(threads)

    def steps():
        metrics = folder / "metrics.jsonl"
        return len(metrics.read_text().splitlines()) if metrics.exists() else 0

    target = random.Random(0).randint(2, 6)
    process = started(*command, said=said)
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline and process.is_alive() and steps() < target:
        time.sleep(0.0005)
    assert process.is_alive(), said.read_text()
    process.kill()
    process.join()
    assert ended(started(*command, code=KILLED_WHILE_WRITING, said=said)) == -signal.SIGKILL, said.read_text()
    assert list((folder / "checkpoints").glob("*.writing")), "the second kill should have torn a checkpoint"
    assert not (folder / "final").exists()
    assert ended(started(*command, said=said)) == 0, said.read_text()
    assert same(weights(folder / "final"), weights(whole))
    assert not list((folder / "checkpoints").glob("*.writing"))
    steps_read = [json.loads(x)["step"] for x in (folder / "metrics.jsonl").read_text().splitlines() if '"loss"' in x]
    assert steps_read == list(range(1, 17))  # no reading twice, none missing


def test_a_finished_run_goes_on_as_if_it_had_been_planned_so(recipe_file, corpus, tmp_path):
    longer = ["optim.steps=12", "optim.starts=[0, 5]"]
    path = recipe_file(optim={"steps": 5, "decay": 0.5})
    short = weights(train(load_recipe(path), data_dir=corpus, quiet=True))
    resumed = train(load_recipe(path, longer), resume=True, data_dir=corpus, quiet=True)
    planned = train(load_recipe(path, [*longer, f"output={tmp_path / 'planned'}"]), data_dir=corpus, quiet=True)
    assert same(weights(resumed), weights(planned))
    assert not same(weights(resumed), short)


def test_it_learns_and_says_so(recipe_file, corpus):
    path = recipe_file(optim={"steps": 60, "lr": 1e-2, "batch": 16, "micro_batch": 16}, run={"evaluate_every": 20})
    final = train(load_recipe(path), data_dir=corpus, quiet=True)
    readings = [json.loads(x) for x in (final.parent / "metrics.jsonl").read_text().splitlines()]
    validations = [r["validation"]["value"] for r in readings if "validation" in r]
    assert validations[-1] < validations[0]
    assert all(r["validation"]["standard_error"] > 0 for r in readings if "validation" in r)
    model = AutoModelForMaskedLM.from_pretrained(final)
    assert model.config.model_type == "bert"
    assert len(list((final.parent / "checkpoints").glob("step-*"))) == 2  # run.keep


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"kind": "gpt2"}, "objective": {"name": "causal"}, "optim": {"name": "muon"}},
        {"model": {"kind": "relative"}},
        {"model": {"kind": "modernbert", "dropout": 0.0}, "optim": {"name": "muon"}},
        {
            "objective": {"prior": "fixed:0.15", "corruption": "80-10-10", "normalise": "token"},
            "optim": {"name": "lamb"},
        },
        {"data": {"unit": "line", "pad_to_length": True, "files": ["small.txt"], "length": 48}},
    ],
    ids=["gpt-muon", "u-PMLM-R", "modernbert-muon", "bert-lamb", "padded-lines"],
)
def test_every_kind_of_run(recipe_file, corpus, changes):
    final = train(load_recipe(recipe_file(**changes), ["optim.steps=3"]), data_dir=corpus, quiet=True)
    assert (final / "model.safetensors").exists()
    assert (final / "recipe.json").exists()


def test_any_checkpoint_can_be_the_start(recipe_file, corpus, tiny_checkpoint):
    path = recipe_file(init=str(tiny_checkpoint), optim={"steps": 1, "lr": 1e-12}, data={"length": 16})
    final = train(load_recipe(path), data_dir=corpus, quiet=True)
    before, after = weights(tiny_checkpoint), weights(final)
    for name in before:
        torch.testing.assert_close(after[name], before[name], rtol=1e-4, atol=1e-5)


def test_refusals(recipe_file, corpus, tmp_path):
    path = recipe_file(optim={"steps": 3})
    train(load_recipe(path), data_dir=corpus, quiet=True)
    with pytest.raises(AnyorderError, match="already holds a run"):
        train(load_recipe(path), data_dir=corpus, quiet=True)
    with pytest.raises(AnyorderError, match=r"different recipe \(optim.lr: 0.0015 -> 0.1\)"):
        train(load_recipe(path, ["optim.lr=0.1"]), resume=True, data_dir=corpus, quiet=True)
    with pytest.raises(AnyorderError, match="does not divide"):
        train(load_recipe(path, ["optim.micro_batch=3", f"output={tmp_path / 'x'}"]), data_dir=corpus, quiet=True)
    with pytest.raises(AnyorderError, match="names no data"):
        train(load_recipe(path, ["data.files=[]", f"output={tmp_path / 'x'}"]), data_dir=corpus, quiet=True)


def test_a_start_that_cannot_be_one(recipe_file, corpus, tiny_checkpoint, tmp_path):
    path = recipe_file()
    with pytest.raises(AnyorderError, match="can read"):
        train(load_recipe(path, [f"init={tiny_checkpoint}", "data.length=4096"]), data_dir=corpus, quiet=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(AnyorderError, match=r"no config\.json"):
        train(load_recipe(path, [f"init={tmp_path / 'empty'}"]), data_dir=corpus, quiet=True)


def test_a_full_disk_leaves_the_last_good_checkpoint(recipe_file, corpus, monkeypatch):
    path = recipe_file(optim={"steps": 6}, run={"checkpoint_every": 3})
    save, calls = torch.save, []

    def full(value, target, *rest, **options):
        calls.append(target)
        if len(calls) == 2:
            target.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        save(value, target, *rest, **options)

    monkeypatch.setattr(torch, "save", full)
    recipe = load_recipe(path)
    with pytest.raises(AnyorderError, match="is the disk full"):
        train(recipe, data_dir=corpus, quiet=True)
    folder = Path(recipe.output) / "checkpoints"
    assert [p.name for p in folder.iterdir()] == ["step-00000003"]
    monkeypatch.setattr(torch, "save", save)
    assert train(recipe, resume=True, data_dir=corpus, quiet=True).exists()


@pytest.mark.parametrize(
    ("loss", "says"), [(math.nan, "the loss is nan at step 4"), (1.0, "NaN or infinity at step 6")]
)
def test_a_run_that_diverges_stops(recipe_file, corpus, monkeypatch, loss, says):
    """At the step whose loss is no number, or before weights that are none are written."""
    step = _Run._step

    def diverging(self, number):
        found = step(self, number)
        if number == 3:
            next(self.model.parameters()).data.fill_(math.nan)
        return (loss, *found[1:]) if number >= 3 else found

    monkeypatch.setattr(_Run, "_step", diverging)
    recipe = load_recipe(recipe_file())
    with pytest.raises(AnyorderError, match=rf"{says}.*lower optim\.lr"):
        train(recipe, data_dir=corpus, quiet=True)
    assert [p.name for p in (Path(recipe.output) / "checkpoints").iterdir()] == ["step-00000003"]


def test_a_damaged_checkpoint_is_named(recipe_file, corpus):
    path = recipe_file(optim={"steps": 6}, run={"checkpoint_every": 3})
    final = train(load_recipe(path), data_dir=corpus, quiet=True)
    expected = weights(final)
    last = Path(load_recipe(path).output) / "checkpoints" / "step-00000006"
    (last / "optimizer.pt").write_bytes((last / "optimizer.pt").read_bytes()[:200])
    with pytest.raises(AnyorderError, match=r"step-00000006 is damaged.*remove it") as error:
        train(load_recipe(path), resume=True, data_dir=corpus, quiet=True)
    assert "\n" not in str(error.value)
    (last / "state.json").write_text("{")
    with pytest.raises(AnyorderError, match="step-00000006 is damaged"):
        train(load_recipe(path), resume=True, data_dir=corpus, quiet=True)
    shutil.rmtree(last)
    assert same(weights(train(load_recipe(path), resume=True, data_dir=corpus, quiet=True)), expected)


def test_two_runs_in_one_folder(recipe_file, corpus):
    recipe = load_recipe(recipe_file())
    with only_writer(Path(recipe.output)), pytest.raises(AnyorderError, match="another process is writing"):
        train(recipe, data_dir=corpus, quiet=True)


def test_readings_are_cut_not_written_anew(recipe_file, tmp_path):
    """What a kill or a disk has torn goes, and what follows it; the rest stays."""
    path = tmp_path / "metrics.jsonl"
    for torn in (b'{"step": 3', b"\xff\n", b"3\n", b'{"step": 9}\n'):
        path.write_bytes(b'{"step": 1, "tokens": 5}\n{"step": 2, "tokens": 7}\n' + torn + b'{"step": 2}\n')
        with Meter(path, load_recipe(recipe_file()), 3, active=True, quiet=True) as meter:
            assert meter.tokens == 7
        assert path.read_bytes() == b'{"step": 1, "tokens": 5}\n{"step": 2, "tokens": 7}\n'


def test_muon_update_is_orthogonal():
    from anyorder.training.muon import orthogonalise

    for shape in ((8, 24), (24, 8), (16, 16)):
        matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        singular = torch.linalg.svdvals(orthogonalise(matrix))
        assert singular.min() > 0.5
        assert singular.max() < 1.3


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_muon_moves_the_matrices_of_the_blocks_and_scales_them_by_outputs_over_inputs(kind):
    sizes = {"vocab_size": 32, "hidden_size": 8, "layers": 1, "heads": 2, "intermediate": 32, "max_length": 8}
    model = build(kind, dropout=0.0, pad_id=0, cls_id=1, sep_id=2, **sizes)
    muon, rest = build_optimizers(model, OptimRecipe(name="muon", weight_decay=0.0))
    moved = {id(p) for group in muon.param_groups for p in group["params"]}
    named = dict(model.named_parameters())
    inner = {n for n, p in named.items() if p.ndim == 2 and ("layer" in n or ".h." in n)}
    assert {n for n, p in named.items() if id(p) in moved} == inner
    assert moved.isdisjoint(id(p) for group in rest.param_groups for p in group["params"])
    wider = next(n for n in inner if "intermediate" in n or "c_fc" in n)  # 8 inputs, 32 outputs
    before = named[wider].detach().clone()
    for n in inner:
        named[n].grad = torch.randn(named[n].shape, generator=torch.Generator().manual_seed(0))
    muon.step()
    step = torch.linalg.svdvals(named[wider].detach() - before).mean() / muon.param_groups[0]["lr"]
    assert 0.6 < float(step) / 2 < 1.3  # √(32 / 8)


def test_an_encoder_with_another_tokenizer_learns_from_a_packed_mixture(recipe_file, corpus, tmp_path, make_checkpoint):
    """A bare encoder, words of its own, two files in shares: killed and resumed, it ends with the same weights."""
    bare = make_checkpoint("bert", tmp_path / "bert")
    AutoModelForMaskedLM.from_pretrained(bare).base_model.save_pretrained(tmp_path / "encoder")
    (tmp_path / "encoder" / "tokenizer.json").write_bytes((bare / "tokenizer.json").read_bytes())
    (tmp_path / "encoder" / "tokenizer_config.json").write_bytes((bare / "tokenizer_config.json").read_bytes())
    (corpus / "lines.txt").write_text("\n".join(f"The dog saw the {w} ." for w in ("sea", "door", "man") * 20))

    def recipe(name, steps):
        return load_recipe(
            recipe_file(
                output=str(tmp_path / name),
                init=str(tmp_path / "encoder"),
                tokenizer={"path": "learn", "vocab_size": 120},
                model={"dropout": 0.1},
                data={"files": ["small.txt", "lines.txt"], "weights": [0.75, 0.25], "unit": ["document", "line"],
                      "pack": True, "min_tokens": 2},
                optim={"steps": steps, "schedule": "constant", "layer_decay": 0.9, "batch": 8, "micro_batch": 4},
            )
        )  # fmt: skip

    whole = train(recipe("whole", 6), data_dir=corpus, quiet=True)
    readings = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert set(readings[-1]["files"]) == {"small.txt", "lines.txt"}
    assert json.loads((tmp_path / "whole" / "carried.json").read_text())["exact"] > 10
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    shutil.rmtree(tmp_path / "again" / "checkpoints" / "step-00000006")
    again = train(recipe("again", 6), data_dir=corpus, quiet=True, resume=True)
    assert same(weights(whole), weights(again))


def test_xlnet_learns_along_orders_and_resumes(recipe_file, corpus, tmp_path):
    """Permutation language modelling through the whole trainer: the loss falls, and a resumed run ends the same."""

    def recipe(name):
        return load_recipe(
            recipe_file(
                output=str(tmp_path / name),
                model={"kind": "xlnet", "dropout": 0.0},
                objective={"name": "permutation", "prior": "share:0.1667"},
                optim={"steps": 12, "lr": 3e-3},
            )
        )

    whole = train(recipe("whole"), data_dir=corpus, quiet=True)
    readings = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    found = [r["validation"]["value"] for r in readings if "validation" in r]
    assert found[-1] < found[0]
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    shutil.rmtree(tmp_path / "again" / "checkpoints" / "step-00000012")
    assert same(weights(whole), weights(train(recipe("again"), data_dir=corpus, quiet=True, resume=True)))


def test_validation_is_the_mean_of_a_plain_loop(recipe_file, corpus):
    """Eq 6 with one fixed mask per held-out text, worked out text by text with transformers' own forward."""
    run = _Run(load_recipe(recipe_file()), corpus)
    found, _ = run.evaluate()
    masker = Masker(UniformCount(), run.batches.masker.mask_id, 120, run.batches.masker.special_ids, seed=1)
    means = []
    for j in run.batches.validation_blocks()["all"]:
        row = run.batches.valid[j].astype("int64")
        corrupted, masked = masker(j, row)
        with torch.no_grad():
            log_q = run.model.eval()(input_ids=torch.tensor(corrupted[None])).logits[0].log_softmax(-1)
        means.append(float(-log_q[masked, row[masked]].mean()))
    assert found.value == pytest.approx(sum(means) / len(means), rel=1e-5)
    assert found.samples == len(means)
