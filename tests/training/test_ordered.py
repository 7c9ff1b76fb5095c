"""Training with texts read in order: the same arithmetic however it is cut, killed, spread or joined later."""

import json

import pytest
import torch
from transformers import AutoConfig

from anyorder.errors import AnyorderError
from anyorder.masking import Masker, UniformCount, collate
from anyorder.models.ordered import TRAINED
from anyorder.training.packing import texts_of
from anyorder.training.recipe import Recipe, from_dict, load_recipe
from anyorder.training.resuming import differences
from anyorder.training.trainer import _Run, train
from small_runs import gradients, in_two_processes, same, weights

HALF = {"ordered": 0.5}


def readings(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.7, 1.0])
def test_which_texts_are_read_in_order_is_known_from_their_number(recipe_file, corpus, share):
    run = _Run(load_recipe(recipe_file()), corpus)
    whole = run.batches.training(range(40), share)
    if not share:
        assert "turn" not in whole
        return
    in_order = (whole["turn"] >= 0).any(1)
    for start in range(0, 40, 8):
        assert abs(int(in_order[start : start + 8].sum()) - 8 * share) <= 1
        part = run.batches.training(range(start, start + 8), share)
        n = part["tokens"].shape[1]
        for name in ("turn", "masked", "tokens", "input_ids"):
            assert torch.equal(part[name], whole[name][start : start + 8, :n])
    for row in in_order.nonzero()[:, 0].tolist():
        turn = whole["turn"][row]
        k = int(turn.max())
        assert sorted(turn[turn > 0].tolist()) == list(range(1, k + 1))
        assert torch.equal(turn > 0, whole["masked"][row])
        assert torch.equal(turn < 0, whole["attention_mask"][row] == 0)
        assert torch.equal(whole["input_ids"][row], whole["tokens"][row])  # its content is read as it is
    plain = run.batches.training(range(40), 0.0)
    assert "turn" not in plain
    assert torch.equal(plain["input_ids"][~in_order], whole["input_ids"][~in_order])  # the others are as they were


def test_counts_and_orders_are_uniform():
    masker = Masker(UniformCount(), mask_id=1, vocab_size=9, special_ids=frozenset({0}), seed=5)
    tokens = torch.tensor([0, 3, 4, 5, 0]).numpy()
    seen = {}
    for i in range(6000):
        order = tuple(masker.order(i, tokens).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 3 + 6 + 6
    for order, times in seen.items():
        expected = 6000 / 3 / {1: 3, 2: 6, 3: 6}[len(order)]
        assert times == pytest.approx(expected, abs=5 * expected**0.5)


@pytest.mark.parametrize("kind", ["bert", "relative", "modernbert"])
def test_a_packed_text_reads_only_itself(recipe_file, corpus, kind):
    path = recipe_file(model={"kind": kind, "dropout": 0.0}, objective=HALF, data={"pack": True, "unit": "line"})
    run = _Run(load_recipe(path), corpus)
    run.model.double().eval()
    whole = run.batches.training(range(6), 0.5)
    assert whole["in_order"].any()
    assert not whole["in_order"].all()
    assert int((whole["text"].amax(1) - whole["text"].clamp(min=0).amin(1)).max()) > 0  # several texts in a row
    whole["attention_mask"] = whole["attention_mask"].double()
    together = run._token_losses(run._losses_of_tokens(), whole)
    run.recipe = load_recipe(path, ["data.pack=false"])
    alone = []
    for row in range(6):
        block = run.batches.train[run.batches.mixture[row]]
        for number, text in enumerate(texts_of(block, run.batches.opening)):
            # every second block is read in order
            orders = {0: run.batches.orderer.order(row, text, number)} if row % 2 else None
            batch = collate([text], [row], run.batches.masker, 0, [number], orders)
            batch["attention_mask"] = torch.ones_like(batch["tokens"])
            alone.append(run._token_losses(run._losses_of_tokens(), batch))
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=0)  # rotary angles are float32


@pytest.mark.parametrize("normalise", ["sequence", "token", "bound"])
def test_accumulation_changes_nothing(recipe_file, corpus, normalise, tmp_path):
    results = []
    for micro in (4, 32):
        recipe = load_recipe(
            recipe_file(
                output=str(tmp_path / f"run{micro}"),
                model={"dropout": 0.0},
                data={"pack": True, "unit": "line"},
                optim={"batch": 32, "micro_batch": micro, "clip": 0.0},
                objective={"normalise": normalise, **HALF},
            )
        )
        results.append(gradients(recipe, corpus))
    (loss8, tokens8, eight), (loss1, tokens1, one) = results
    assert loss8 == pytest.approx(loss1, rel=1e-6)
    assert tokens8 == tokens1
    for name in one:
        torch.testing.assert_close(eight[name], one[name], rtol=1e-4, atol=1e-7)


def test_two_processes_take_the_step_of_one(recipe_file, corpus, tmp_path):
    optim = {"steps": 1, "batch": 8, "micro_batch": 2, "eps": 1.0, "lr": 1.0, "warmup": 0, "clip": 0.0}
    path = recipe_file(model={"dropout": 0.0}, optim=optim, objective=HALF)
    in_two_processes(path, corpus, tmp_path / "two")
    train(load_recipe(path, [f"output={tmp_path / 'one'}"]), data_dir=corpus, quiet=True)
    one, two = weights(tmp_path / "one" / "final"), weights(tmp_path / "two" / "final")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-6)
    for a, b in zip(readings(tmp_path / "one"), readings(tmp_path / "two"), strict=True):
        for reading in {"full", "ordered", "validation", "validation_ordered"} & a.keys():
            assert a[reading] == pytest.approx(b[reading], rel=1e-5)


@pytest.mark.parametrize("kind", ["bert", "relative", "modernbert"])
def test_stopped_and_resumed_it_ends_with_the_same_weights_and_readings(
    recipe_file, corpus, tmp_path, kind, monkeypatch
):
    path = recipe_file(optim={"steps": 8}, model={"kind": kind}, objective=HALF, data={"pack": kind != "relative"})
    whole = train(load_recipe(path, [f"output={tmp_path / 'whole'}"]), data_dir=corpus, quiet=True)
    step, made = _Run._step, []

    def stop_at_five(self, number):
        made.append(number)
        if made.count(5) == 1 and number == 5:
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(_Run, "_step", stop_at_five)
    with pytest.raises(KeyboardInterrupt):
        train(load_recipe(path), data_dir=corpus, quiet=True)
    resumed = train(load_recipe(path), resume=True, data_dir=corpus, quiet=True)
    assert made == [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7]  # from the checkpoint of step 3
    assert same(weights(resumed), weights(whole))
    speed = {"tokens_per_second": 0.0, "memory": 0}
    assert [r | speed for r in readings(resumed.parent)] == [r | speed for r in readings(whole.parent)]


def test_a_run_can_take_to_it_near_its_end(recipe_file, corpus, tmp_path):
    later = ["objective.ordered=0.5", "objective.ordered_from=6"]
    path = recipe_file(optim={"steps": 12})
    planned = train(load_recipe(path, [*later, f"output={tmp_path / 'planned'}"]), data_dir=corpus, quiet=True)
    plain = load_recipe(path)

    class Stop(Exception):
        pass

    class Half(_Run):
        def _step(self, step):
            if step == 7:
                raise Stop
            return super()._step(step)

    with pytest.raises(Stop):
        Half(plain, corpus).loop()  # its last checkpoint is that of step 6
    with pytest.raises(AnyorderError, match=r"objective\.ordered: 0\.0 -> 0\.5"):
        train(load_recipe(path, [later[0], "objective.ordered_from=5"]), resume=True, data_dir=corpus, quiet=True)
    resumed = train(load_recipe(path, later), resume=True, data_dir=corpus, quiet=True)
    assert same(weights(resumed), weights(planned))
    told = readings(resumed.parent)
    assert ["ordered" in r for r in told if "loss" in r] == [False] * 6 + [True] * 6
    assert ["validation_ordered" in r for r in told if "validation" in r] == [False, True]


def test_a_change_that_begins_after_the_steps_done_is_no_difference():
    base = Recipe()
    later = from_dict({"objective": {"ordered": 0.5, "ordered_from": 100}})
    assert differences(base, later, done=100) == []
    assert differences(base, later, done=101) != []
    assert differences(later, base, done=100) == []
    more = from_dict({"objective": {"ordered": 0.25, "ordered_from": 100}})
    assert differences(later, more, done=100) == []
    assert differences(later, more, done=150) == ["objective.ordered: 0.5 -> 0.25"]
    assert differences(later, from_dict({"optim": {"lr": 1.0}}), done=50) == ["optim.lr: 0.0015 -> 1.0"]


def test_it_learns_both_readings_and_the_checkpoint_says_so(recipe_file, corpus):
    path = recipe_file(
        optim={"steps": 60, "lr": 1e-2, "batch": 16, "micro_batch": 16}, run={"evaluate_every": 20}, objective=HALF
    )
    final = train(load_recipe(path), data_dir=corpus, quiet=True)
    found = readings(final.parent)
    for name in ("validation", "validation_ordered"):
        values = [r[name] for r in found if "validation" in r]
        assert values[-1]["value"] < values[0]["value"]
        assert all(v["standard_error"] > 0 for v in values)
    first = next(r for r in found if "ordered" in r)
    assert first["ordered"]["samples"] == first["full"]["samples"] == 8
    assert first["loss"] == pytest.approx((first["ordered"]["value"] + first["full"]["value"]) / 2, rel=0.2)
    assert getattr(AutoConfig.from_pretrained(final), TRAINED) is True


def test_training_on_without_it_takes_the_word_back(recipe_file, corpus, tmp_path):
    final = train(load_recipe(recipe_file(optim={"steps": 1}, objective=HALF)), data_dir=corpus, quiet=True)
    path = recipe_file(optim={"steps": 1}, init=str(final), output=str(tmp_path / "on"))
    assert getattr(AutoConfig.from_pretrained(train(load_recipe(path), data_dir=corpus, quiet=True)), TRAINED) is False


def test_refusals(recipe_file, corpus):
    with pytest.raises(AnyorderError, match=r"'objective.ordered' must be at most 1, not 1\.5"):
        load_recipe(recipe_file(objective={"ordered": 1.5}))
    path = recipe_file(model={"kind": "gpt2"}, objective={"name": "causal", "ordered": 0.5})
    with pytest.raises(AnyorderError, match=r"objective\.ordered .* pmlm"):
        train(load_recipe(path), data_dir=corpus, quiet=True)
