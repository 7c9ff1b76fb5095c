"""Recipes: every key is known, typed and checked."""

import pytest

from anyorder.errors import AnyorderError
from anyorder.training.optim import rate
from anyorder.training.recipe import OptimRecipe, Recipe, from_dict, load_recipe
from anyorder.training.resuming import differences


def write(tmp_path, text):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    return path


def test_overrides_and_defaults(tmp_path):
    path = write(tmp_path, "optim: {steps: 5, lr: 1e-3}\ndata: {files: a.txt}\n")
    recipe = load_recipe(path, ["optim.lr=2e-4", "run.compile=true", "init=some/model"])
    assert recipe.optim.steps == 5
    assert recipe.optim.lr == 2e-4
    assert recipe.run.compile is True
    assert recipe.init == "some/model"
    assert recipe.data.files == ("a.txt",)
    assert from_dict(recipe.to_dict()) == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optim: {leraning_rate: 1}", "no key 'optim.leraning_rate'"),
        ("optm: {lr: 1}", "did you mean 'optim'"),
        ("optim: 3", "is a group"),
        ("optim: {steps: many}", "wants a value like"),
        ("optim: {steps: 0}", "at least 1"),
        ("optim: {steps: 1.5}", "wants a value like"),
        ("run: {compile: 3}", "wants a value like"),
        ("optim: {name: sgd}", "is one of adamw"),
        ("optim: {starts: [5]}", "is 0 and then ever later steps"),
        ("optim: {starts: [0, 5, 5]}", "is 0 and then ever later steps"),
        ("optim: {decay: 0}", "is a share of the steps"),
        ("optim: {decay: []}", "is a share of the steps"),
        ("optim: {lr: .nan}", "must be at least 0, not nan"),
        ("optim: {lr: 1.0e+300}", "must be at most 1000000000"),
        ("optim: {betas: [0.9]}", "wants a value like"),
        ("optim: {betas: [0.9, 1.0]}", "must be less than 1"),
        ("optim: {steps: .inf}", "wants a value like"),
        ("model: {heads: 0}", "at least 1"),
        ("data: {length: 1}", "at least 2"),
        ("model: {kind: gpt2}", "pmlm trains bert, relative, modernbert, not model.kind gpt2"),
        ("objective: {name: causal}", "causal trains gpt2, not model.kind modernbert"),
        ("{objective: {name: permutation}, model: {kind: bert}}", "permutation trains xlnet, not model.kind bert"),
        ("run: {evaluate_every: 0}", "at least 1"),
        ("run: {keep: -1}", "at least 0"),
        ("data: {holdout: [0.1, 2]}", "at most 1"),
        ("seed: -1", "at least 0"),
        ("[" * 3000, "not valid YAML: nested too deeply"),
        ("output: 2026-13-45", "not valid YAML: a value cannot be read"),
        ("output: &a [*a]", "not valid YAML: an alias"),
        ("[1, 2]", "must be a YAML mapping"),
        ("a: [", "not valid YAML"),
    ],
)
def test_refusals(tmp_path, text, message):
    with pytest.raises(AnyorderError, match=message) as error:
        load_recipe(write(tmp_path, text))
    assert "\n" not in str(error.value)


def test_a_recipe_in_another_encoding(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes("output: Läufe".encode("latin-1"))
    with pytest.raises(AnyorderError, match=r"is not UTF-8 \(byte 10\).*iconv"):
        load_recipe(path)


def test_missing_recipe_and_bad_override(tmp_path):
    with pytest.raises(AnyorderError, match="no recipe"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(AnyorderError, match="key=value"):
        load_recipe(write(tmp_path, "seed: 1"), ["seed"])


def test_differences_ignore_how_a_run_is_carried_out():
    base = Recipe()
    assert differences(base, from_dict({"run": {"threads": 2}, "output": "elsewhere"}), 5) == []
    assert differences(base, from_dict({"optim": {"lr": 1.0}}), 5) == ["optim.lr: 0.0015 -> 1.0"]


def test_going_on_where_a_run_ends_is_no_difference():
    def recipe(**optim):
        return from_dict({"optim": {"warmup": 2, **optim}})

    done = recipe(steps=10, decay=0.3)
    assert differences(done, recipe(steps=30, starts=[0, 10], decay=[0.3, 0.5]), 10) == []
    assert differences(done, recipe(steps=30, starts=[0, 10], decay=0.5), 10) != []
    assert differences(done, recipe(steps=30, starts=[0, 12], decay=0.3), 10) != []
    assert differences(done, recipe(steps=30, decay=0.3), 10) == ["optim.steps: 10 -> 30"]
    # but while the rate had not begun to fall, nothing that was done depends on where it would
    assert differences(done, recipe(steps=30, decay=0.3), 7) == []
    assert differences(done, recipe(steps=30, decay=0.3, warmup=3), 7) != []


def test_a_run_is_not_made_shorter_than_it_is():
    one, other = (from_dict({"optim": {"steps": steps, "schedule": "constant"}}) for steps in (10, 5))
    assert differences(one, other, 5) == []
    assert differences(one, other, 7) == ["optim.steps: 5, but 7 are done"]


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_every_start_begins_the_schedule_again(schedule):
    both = OptimRecipe(steps=30, warmup=3, starts=(0, 10), decay=(0.3, 0.8), schedule=schedule)
    first, second = (OptimRecipe(steps=n, warmup=3, decay=(d,), schedule=schedule) for n, d in ((10, 0.3), (20, 0.8)))
    expected = [rate(first, s) for s in range(10)] + [rate(second, s) for s in range(20)]
    assert [rate(both, s) for s in range(30)] == expected
    assert expected[:3] == expected[10:13] == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_recipe_cut_short_ends_like_one_planned_so():
    whole = from_dict({"optim": {"steps": 30, "starts": [0, 10], "decay": [0.5, 0.8], "warmup": 2}})
    for steps, planned in ((6, OptimRecipe(steps=6, warmup=2, decay=(0.5,))), (10, whole.optim)):
        cut = from_dict({"optim": {**whole.to_dict()["optim"], "steps": steps}})
        assert [rate(cut.optim, s) for s in range(steps)] == [rate(planned, s) for s in range(steps)]
    assert differences(cut, whole, 10) == []  # 10 steps are the first part: the whole goes on from there


def test_the_linear_schedule_by_hand():
    recipe = OptimRecipe(steps=14, warmup=4, decay=(0.5,))
    assert [rate(recipe, s) for s in (0, 3, 4, 9, 10, 13)] == pytest.approx([0.25, 1, 1, 1, 0.8, 0.2])
