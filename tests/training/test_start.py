"""What a run starts from, and what it may go on with: nothing stale, nothing that does not fit, no foreign code."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from transformers import AutoConfig, AutoTokenizer

from anyorder.errors import AnyorderError
from anyorder.models.pairs import PAIRS
from anyorder.training.recipe import load_recipe
from anyorder.training.trainer import _Run, train
from remote_code import CODE_THAT_RUNS
from tiny import tiny_model, tiny_tokenizer

CAUSAL = {"name": "causal"}
_START: dict[str, Path] = {}


@pytest.fixture
def trained(recipe_file, corpus, tmp_path_factory):
    """kind -> a folder of its own with a checkpoint of one step."""

    def make(kind):
        objective = {"gpt2": CAUSAL, "xlnet": {"name": "permutation", "prior": "share:0.2"}}.get(kind, {})
        if kind not in _START:
            output = tmp_path_factory.mktemp(kind) / "run"
            path = recipe_file(output=str(output), model={"kind": kind}, objective=objective, optim={"steps": 1})
            _START[kind] = train(load_recipe(path), data_dir=corpus, quiet=True)
        folder = tmp_path_factory.mktemp("start") / kind
        shutil.copytree(_START[kind], folder)
        return folder

    return make


def change(folder, name="config.json", **values):
    path = folder / name
    said = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in said.items() if value is not None}))


def refused(recipe_file, corpus, match, **changes):
    with pytest.raises(AnyorderError, match=match) as error:
        train(load_recipe(recipe_file(optim={"steps": 1}, **changes)), data_dir=corpus, quiet=True)
    assert "\n" not in str(error.value)


def test_gpt_goes_on_from_a_checkpoint_without_a_mask_token(recipe_file, corpus, trained, tmp_path):
    start = trained("gpt2")
    change(start, "tokenizer_config.json", mask_token=None)
    path = recipe_file(init=str(start), objective=CAUSAL, optim={"steps": 1}, output=str(tmp_path / "on"))
    assert AutoConfig.from_pretrained(train(load_recipe(path), data_dir=corpus, quiet=True)).model_type == "gpt2"


@pytest.mark.parametrize(
    ("kind", "objective", "says"),
    [
        ("bert", CAUSAL, r"left to right, and .* \(bert\) does not"),
        ("xlnet", CAUSAL, r"left to right, and .* \(xlnet\) does not"),
        ("gpt2", {"name": "permutation"}, "trains XLNet, and .* is gpt2"),
    ],
)
def test_an_objective_that_does_not_fit_its_start(recipe_file, corpus, trained, kind, objective, says):
    refused(recipe_file, corpus, says, init=str(trained(kind)), objective=objective)


def test_a_causal_head_on_a_model_that_sees_both_ways(recipe_file, corpus, tmp_path):
    """transformers gives RoBERTa one, and it learns to copy the word it is to predict."""
    tiny_model("roberta").save_pretrained(tmp_path / "roberta")
    tiny_tokenizer().save_pretrained(tmp_path / "roberta")
    refused(recipe_file, corpus, r"\(roberta\) does not", init=str(tmp_path / "roberta"), objective=CAUSAL)


def test_a_start_that_does_not_fit_the_recipe(recipe_file, corpus, trained):
    start = trained("gpt2")
    given = {"init": str(start), "objective": CAUSAL}
    refused(recipe_file, corpus, "leave tokenizer.path out", **given, tokenizer={"path": "learn", "vocab_size": 90})
    change(start, "tokenizer_config.json", model_max_length=None)
    refused(recipe_file, corpus, r"more than .* can read \(32 tokens\)", **given, data={"length": 64})
    change(start, "tokenizer_config.json", pad_token=None)
    refused(recipe_file, corpus, "has no pad token: set tokenizer.pad_token", **given)
    start = trained("bert")
    change(start, "tokenizer_config.json", mask_token=None)
    refused(recipe_file, corpus, "has no mask token", init=str(start))
    tokenizer = AutoTokenizer.from_pretrained(trained("bert"))
    tokenizer.add_tokens([f"new{i}" for i in range(9)])
    tokenizer.save_pretrained(start)
    refused(recipe_file, corpus, "tokens and the model", init=str(start))


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_code_that_comes_with_a_start_is_not_run(recipe_file, corpus, trained, tmp_path, monkeypatch, kind):
    """Not even if somebody, or a pipe, answers yes: transformers would ask."""
    start, trace = trained(kind), tmp_path / "trace"
    (start / "evil.py").write_text(CODE_THAT_RUNS.format(trace=str(trace)))
    auto = dict.fromkeys(("AutoModel", "AutoModelForCausalLM", "AutoModelForMaskedLM"), "evil.Model")
    change(start, model_type="evil", auto_map={"AutoConfig": "evil.Config", **auto})
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\ny\n"))
    objective = CAUSAL if kind == "gpt2" else {}
    refused(
        recipe_file, corpus, r"comes with code of its own \(evil.py\): choose", init=str(start), objective=objective
    )
    assert not trace.exists()


def test_a_kernel_from_the_hub_is_not_asked_for(recipe_file, corpus, trained):
    start = trained("gpt2")
    change(start, attn_implementation="some/kernel")
    refused(recipe_file, corpus, "asks for code from the hub", init=str(start), objective=CAUSAL)


@pytest.mark.parametrize(("weights", "says"), [([0.5, 0.5], "2 shares for 1 file"), ([0.0], "one must be above 0")])
def test_shares_of_other_files(recipe_file, corpus, weights, says):
    """Said before a tokenizer is learned by them."""
    refused(recipe_file, corpus, says, data={"weights": weights})


def test_a_learned_tokenizer_follows_the_recipe(recipe_file, corpus, tmp_path):
    """A run that stopped before its first checkpoint leaves a tokenizer: another recipe must not get it."""
    (tmp_path / "data").mkdir()
    text = (corpus / "small.txt").read_text()
    (tmp_path / "data" / "small.txt").write_text(text)

    def learned(size):
        path = recipe_file(tokenizer={"vocab_size": size})
        return _Run(load_recipe(path), tmp_path / "data").tokenizer.get_vocab()

    first = learned(120)
    stamp = (tmp_path / "run" / "tokenizer" / "tokenizer.json").stat().st_mtime_ns
    assert learned(120) == first
    assert (tmp_path / "run" / "tokenizer" / "tokenizer.json").stat().st_mtime_ns == stamp
    assert len(learned(80)) == 80
    (tmp_path / "data" / "small.txt").write_text(text.replace("house", "castle"))
    assert learned(80) != learned(120)
    assert learned(120) != first


def test_a_run_goes_on_with_the_texts_it_began_with(recipe_file, corpus, tmp_path):
    (tmp_path / "data").mkdir()
    source = tmp_path / "data" / "small.txt"
    source.write_bytes((corpus / "small.txt").read_bytes())
    recipe = load_recipe(recipe_file(optim={"steps": 6}, run={"checkpoint_every": 3}))
    train(recipe, data_dir=tmp_path / "data", quiet=True)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000006")
    source.write_text(source.read_text().replace("dog", "sea"))
    with pytest.raises(AnyorderError, match=r"files of data\.files are others"):
        train(recipe, data_dir=tmp_path / "data", resume=True, quiet=True)
    state = tmp_path / "run" / "checkpoints" / "step-00000003" / "state.json"
    said = json.loads(state.read_text())
    del said["corpus"]  # as in checkpoints of older versions
    state.write_text(json.dumps(said))
    train(recipe, data_dir=tmp_path / "data", resume=True, quiet=True)


def test_documents_after_pairs_have_no_target(recipe_file, corpus, tmp_path):
    (tmp_path / "p.tsv").write_text("\n".join(f"the old man {i}\tthe dog found {i}" for i in range(40)))
    data = {"files": [str(tmp_path / "p.tsv")], "columns": [1, 2]}
    path = recipe_file(output=str(tmp_path / "pairs"), data=data, optim={"steps": 1})
    start = train(load_recipe(path), quiet=True)
    assert getattr(AutoConfig.from_pretrained(start), PAIRS) == 3
    path = recipe_file(output=str(tmp_path / "on"), init=str(start), optim={"steps": 1})
    assert not hasattr(AutoConfig.from_pretrained(train(load_recipe(path), data_dir=corpus, quiet=True)), PAIRS)
