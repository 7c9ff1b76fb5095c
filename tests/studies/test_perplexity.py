"""Tables 2 and 3 on tiny models: every number against a plain loop, and the command from end to end."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.errors import AnyorderError
from anyorder.studies.causal import causal_sample, causal_terms, is_causal, load_causal
from anyorder.studies.finetune import finetune
from anyorder.studies.perplexity import contexts, evaluate


def run(*args: object) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, args)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def plain_sequential(model: Any, tokens: torch.Tensor, free: torch.Tensor, mask_id: int) -> float:
    """Σ log q left to right, one forward pass per token, no attention mask."""
    total = 0.0
    for i in free.nonzero()[:, 0].tolist():
        asked = tokens.clone()
        asked[(torch.arange(len(tokens)) >= i) & free] = mask_id
        with torch.no_grad():
            total += float(model(input_ids=asked[None]).logits[0, i].log_softmax(-1)[tokens[i]])
    return total


def test_contexts_are_full_rows_or_whole_lines(trained: dict[str, Path], stories: dict[str, Path]) -> None:
    from anyorder.training.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(trained["gpt"])
    full = contexts(stories["test"], tokenizer, unit="document", length=32, padding="masked")
    assert full.tokens.shape[1] == 32
    assert not (full.tokens == tokenizer.pad_token_id).any()
    assert len(contexts(stories["test"], tokenizer, unit="document", length=32, padding="masked", limit=3).tokens) == 3
    lines = contexts(stories["test_lines"], tokenizer, unit="line", length=32, padding="masked")
    assert len(lines.tokens) == 20
    assert torch.equal(lines.free, lines.words)
    padded = contexts(stories["test_lines"], tokenizer, unit="line", length=32, padding="predicted")
    assert padded.tokens.shape == (20, 32)
    assert padded.pad_id is None
    assert torch.equal(padded.free & ~padded.words, padded.tokens == tokenizer.pad_token_id)


def test_sequential_perplexity_equals_a_plain_loop(trained: dict[str, Path], stories: dict[str, Path]) -> None:
    import anyorder

    settings: dict[str, Any] = {"unit": "line", "length": 32, "padding": "masked", "limit": 4}
    cells = evaluate("m", trained["u-pmlm-a"], stories["test_lines"], **settings, random=["bound"])
    lm = anyorder.load(trained["u-pmlm-a"])
    rows = contexts(stories["test_lines"], lm.tokenizer, **settings)
    total, count = 0.0, 0
    for tokens, free in zip(rows.tokens, rows.free, strict=True):
        real = tokens != lm.tokenizer.pad_token_id
        total += plain_sequential(lm.model, tokens[real], free[real], lm.tokenizer.mask_token_id)
        count += int(free.sum())
    assert cells[0].perplexity == pytest.approx(math.exp(-total / count), rel=1e-4)
    assert [(c.order, c.method, c.passes) for c in cells] == [("sequential", "chain", count), ("random", "bound", 64)]
    assert cells[0].low < cells[0].perplexity < cells[0].high


def test_chain_and_bound_agree_on_random_order(trained: dict[str, Path], stories: dict[str, Path]) -> None:
    cells = evaluate("m", trained["u-pmlm-a"], stories["test"], unit="document", length=32, padding="masked")
    chain, bound = cells[1], cells[2]
    assert (chain.method, bound.method) == ("chain", "bound")
    assert chain.low < bound.perplexity < chain.high
    assert bound.passes < chain.passes


def test_a_model_trained_for_it_is_also_read_in_order(
    trained: dict[str, Path], stories: dict[str, Path], tmp_path: Path
) -> None:
    import anyorder
    from anyorder.tasks.reading import ordered_of

    folder = shutil.copytree(trained["u-pmlm-a"], tmp_path / "u-pmlm-o")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"anyorder_ordered": True}))
    settings: dict[str, Any] = {"unit": "line", "length": 32, "padding": "masked", "limit": 4}
    cells = evaluate("m", folder, stories["test_lines"], **settings, random=["bound"])
    kinds = [(c.order, c.method) for c in cells]
    full = [("sequential", "chain"), ("random", "bound")]
    assert kinds == [*full, ("sequential", "ordered"), ("random", "ordered")]
    assert [c.passes for c in cells[2:]] == [4, 4]
    lm = anyorder.load(folder)
    reader = ordered_of(lm)
    rows = contexts(stories["test_lines"], lm.tokenizer, **settings)
    total = 0.0
    for tokens, free in zip(rows.tokens, rows.free, strict=True):  # one question after another
        memory = reader.begin(tokens[None], ~free[None])
        for i in free.nonzero()[:, 0].tolist():
            asked = torch.tensor([[i]])
            total += float(reader.ask(memory, asked)[0, 0, tokens[i]])
            memory = reader.read(memory, asked, tokens[None, [i]])
    assert cells[2].perplexity == pytest.approx(math.exp(-total / int(rows.free.sum())), rel=1e-6)
    assert cells[2].perplexity != pytest.approx(cells[0].perplexity, rel=1e-5), "read in full"


def test_causal_terms_equal_transformers_loss(trained: dict[str, Path]) -> None:
    model = load_causal(trained["gpt"])
    tokens = causal_sample(model, torch.full((3, 1), 2), 11, torch.Generator().manual_seed(0), banned=range(5))
    assert tokens.shape == (3, 12)
    assert int(tokens[:, 1:].min()) >= 5
    free = torch.ones_like(tokens, dtype=torch.bool)
    free[:, 0] = False
    with torch.no_grad():
        loss = model(input_ids=tokens, labels=tokens).loss
    assert float(causal_terms(model, tokens, free, None).sum()) == pytest.approx(-float(loss) * 33, rel=1e-5)
    # Padding at the end changes nothing before it.
    padded = torch.cat([tokens, torch.zeros(3, 4, dtype=torch.long)], 1)
    longer = torch.cat([free, torch.zeros(3, 4, dtype=torch.bool)], 1)
    torch.testing.assert_close(
        causal_terms(model, padded, longer, 0)[:, :12], causal_terms(model, tokens, free, None), rtol=1e-5, atol=1e-5
    )


def test_nothing_is_predicted_of_a_word_that_nothing_precedes(
    trained: dict[str, Path], stories: dict[str, Path], tmp_path: Path
) -> None:
    """Many causal models have no token that opens a text: their first word has no probability, not a certain one."""
    from transformers import PreTrainedTokenizerFast

    from anyorder.training.tokenizer import load_tokenizer

    shutil.copytree(trained["gpt"], tmp_path / "gpt")
    bare = PreTrainedTokenizerFast(tokenizer_object=load_tokenizer(trained["gpt"]).backend_tokenizer, pad_token="[PAD]")
    bare.save_pretrained(tmp_path / "gpt")
    settings: dict[str, Any] = {"unit": "line", "length": 16, "padding": "masked", "limit": 4}
    (cell,) = evaluate("gpt", tmp_path / "gpt", stories["test_lines"], **settings)
    rows = contexts(stories["test_lines"], load_tokenizer(tmp_path / "gpt"), **settings)
    assert bool(rows.words[:, 0].all())
    log_probs = causal_terms(load_causal(trained["gpt"]), rows.tokens, rows.words, rows.pad_id)
    assert cell.tokens == int(rows.words[:, 1:].sum())
    assert cell.perplexity == pytest.approx(math.exp(-float(log_probs.sum()) / cell.tokens))


def test_the_cache_draws_what_full_passes_would(trained: dict[str, Path]) -> None:
    model = load_causal(trained["gpt"])
    with_cache = causal_sample(model, torch.full((2, 1), 2), 8, torch.Generator().manual_seed(1))
    generator, tokens = torch.Generator().manual_seed(1), torch.full((2, 1), 2)
    for _ in range(8):
        with torch.no_grad():
            p = model(input_ids=tokens).logits[:, -1].double().softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(p, 1, generator=generator)], 1)
    assert torch.equal(with_cache, tokens)


def test_kinds_are_told_apart(trained: dict[str, Path], tmp_path: Path) -> None:
    assert is_causal(trained["gpt"])
    assert not is_causal(trained["u-pmlm-a"])
    with pytest.raises(AnyorderError, match=r"there is no (model|folder) .*nothing"):
        is_causal(tmp_path / "nothing")


def test_table_3_from_fine_tuning_to_json(trained: dict[str, Path], stories: dict[str, Path], tmp_path: Path) -> None:
    args = ["perplexity", "--models", *(f"{name}={path}" for name, path in trained.items())]
    args += ["--data", stories["lines"], "--test", stories["test_lines"], "--finetune-steps", 12, "--unit", "line"]
    args += ["--length", 16, "--padding", "masked", "--padding", "predicted", "--limit", 6, "--work", tmp_path / "w"]
    answer = json.loads(run(*args, "--json"))
    found = [(r["model"], r["order"], r["method"], r["padding"], r["counted"]) for r in answer["rows"]]
    masked, padded = [("masked", "words")], [("predicted", "words"), ("predicted", "words and padding")]
    jobs = {"u-pmlm-a": [("sequential", "chain"), ("random", "chain"), ("random", "bound")]}
    jobs["gpt"] = [("sequential", "causal")]
    assert found == [
        (name, *job, *cell) for name in trained for arm in (masked, padded) for job in jobs[name] for cell in arm
    ]
    assert all(1 < r["low"] < r["perplexity"] < r["high"] for r in answer["rows"] if r["counted"] == "words")
    about = answer["settings"]["models"]
    assert [a["tokens_seen"] for a in about] == [30 * 8 * 32] * 2
    assert all(a["parameters"] > 10_000 for a in about)
    # The paper's way of padding leaves no mark of the sentence's end but [PAD] itself.
    import anyorder

    lm = anyorder.load(tmp_path / "w" / "u-pmlm-a-predicted" / "final")
    rows = contexts(stories["test_lines"], lm.tokenizer, unit="line", length=16, padding="predicted")
    assert int((~rows.free).sum(-1).max()) == 1
    # A second run finds the fine-tuned models and gives the same numbers.
    again = json.loads(run(*args, "--json"))
    for one, two in zip(answer["rows"], again["rows"], strict=True):
        assert one["perplexity"] == pytest.approx(two["perplexity"], rel=1e-6)
    assert "PPL" in run(*args)


def test_fine_tuning_copies_this_model_and_counts_its_own_steps(
    trained: dict[str, Path], stories: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the one that the same name meant before; and a reading that pretraining began late is there at once."""
    first, second = tmp_path / "one", tmp_path / "two"
    for folder, name in ((first, "u-pmlm-a"), (second, "gpt")):
        shutil.copytree(trained[name], folder)
    recipe = json.loads((first / "recipe.json").read_text())
    recipe["objective"] |= {"ordered": 0.5, "ordered_from": 10_000}
    (first / "recipe.json").write_text(json.dumps(recipe))
    given: list[Any] = []
    monkeypatch.setattr("anyorder.training.trainer.train", lambda recipe, **_: given.append(recipe))
    common: dict[str, Any] = {"steps": 9, "rate": 1.0, "unit": "line", "length": 16, "seed": 0, "predict_padding": True}
    for model in (first, second, first):
        finetune(model, [stories["lines"]], tmp_path / "run", **common)
    assert given[0].init == given[2].init != given[1].init
    for recipe, model in zip(given, (first, second), strict=False):
        assert (Path(recipe.init) / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert given[0].objective.ordered_at(0) == 0.5


def test_fine_tuning_lowers_perplexity(trained: dict[str, Path], stories: dict[str, Path], tmp_path: Path) -> None:
    common: dict[str, Any] = {"unit": "line", "length": 16}
    ready = finetune(
        trained["gpt"],
        [stories["lines"]],
        tmp_path / "run",
        steps=60,
        rate=1.0,
        predict_padding=False,
        seed=0,
        **common,
    )
    before, after = (
        evaluate("gpt", path, stories["test_lines"], padding="masked", **common)[0].perplexity
        for path in (trained["gpt"], ready)
    )
    assert after < before


def test_bad_input(trained: dict[str, Path], stories: dict[str, Path], tiny_checkpoint: Path, tmp_path: Path) -> None:
    gpt, test = f"gpt={trained['gpt']}", stories["test"]
    for args, message in (
        (["--models", gpt, "--test", test, "--finetune-steps", 3], "name it with --data"),
        (["--models", gpt, "--test", test, "--padding", "predicted"], "learns to predict"),
        (["--models", gpt, gpt, "--test", test], "a name of its own"),
        (["--models", gpt, "--test", "nowhere"], "there is no file nowhere"),
        (["--models", gpt, "--test", test, "--unit", "lin"], "did you mean 'line'"),
        (["--models", gpt, "--test", stories["test_lines"], "--length", 2000], "no context of 2000"),
    ):
        with pytest.raises(AnyorderError, match=message):
            run("perplexity", *args)
    with pytest.raises(AnyorderError, match=r"no recipe\.json"):
        run(
            "perplexity", "--models", tiny_checkpoint, "--test", test, "--data", stories["train"],
            "--finetune-steps", 2, "--work", tmp_path,
        )  # fmt: skip
