"""Putting a model into the package: what is shipped is what was trained, and the card's figures are what they say."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import anyorder
from anyorder.errors import AnyorderError
from anyorder.studies import bundle as module
from anyorder.studies.bars import Bar, Measured
from anyorder.studies.bundle import bundle
from anyorder.studies.card import held_out_texts
from anyorder.studies.characters import PerCharacter
from anyorder.studies.minimal_pairs import ALL, Accuracy
from anyorder.studies.samples import blank_accuracy, filled_blanks, order_perplexity
from anyorder.training.recipe import load_recipe
from anyorder.training.trainer import train


@pytest.fixture
def final(recipe_file, corpus):
    path = recipe_file(data={"length": 96, "holdout": 0.3}, optim={"steps": 3}, objective={"ordered": 0.5})
    return train(load_recipe(path), data_dir=corpus, quiet=True)


def test_the_bundle_is_the_model_in_half_precision_with_its_card(final, tmp_path):
    target = tmp_path / "assets"
    bundle(final, target=target, allow_short=True, start="an older model")
    shipped, trained = load_file(target / "model.safetensors"), load_file(final / "model.safetensors")
    for name, weight in shipped.items():
        assert weight.dtype == torch.float16
        torch.testing.assert_close(weight.float(), trained[name], rtol=1e-3, atol=1e-6)
    lm = anyorder.load(str(target))
    assert lm.curve is not None
    assert lm.curve.loss[0] > 0
    assert math.isfinite(lm.fill("the old ___ opened the door .", top=1)[0].log_prob)
    text = (target / "README.md").read_text()
    for heading in ("One blank", "Two blanks", "Five blanks", "scattered", "Begin and end", "A paragraph"):
        assert heading in text
    assert text.count("\n20. ") == 3
    assert "sha256" in text
    assert "It was started from an older model." in text
    last = [json.loads(line) for line in (final.parent / "metrics.jsonl").read_text().splitlines()][-1]
    for reading in ("validation", "validation_ordered"):
        assert f"all {last[reading]['value']:.3f} ± {last[reading]['standard_error']:.3f}" in text


def test_what_is_too_large_is_not_shipped(final, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 1000)
    with pytest.raises(AnyorderError, match="more than the package's"):
        bundle(final, target=tmp_path / "assets", allow_short=True)
    assert not (tmp_path / "assets").exists()


def test_what_falls_short_of_the_bars_is_shipped_only_if_told(final, tmp_path, monkeypatch):
    target = tmp_path / "assets"
    target.mkdir()
    (target / "old").write_text("what was there")
    with pytest.raises(AnyorderError, match="--data-dir"):
        bundle(final, target=target)
    row = PerCharacter("x", 2, 10, 4, 9.0, 8.0, 10.0, 20.0)
    measured = Measured((Bar("simple", "x.txt", None, 1.0),), (row,), (Accuracy(ALL, "pll", 4, 1.0, 0.9, 1.0),))
    monkeypatch.setattr(module, "measure", lambda *_, **__: measured)
    with pytest.raises(AnyorderError, match=r"simple: 9.000 nats per character, at most 1.0"):
        bundle(final, tmp_path, target)
    assert (target / "old").exists()
    bundle(final, tmp_path, target, allow_short=True)
    assert "9.000 (8.000 to 10.000)" in (target / "README.md").read_text()
    assert not (target / "old").exists()


def test_packed_rows_are_taken_apart(recipe_file, corpus):
    path = recipe_file(data={"length": 96, "holdout": 0.3, "pack": True, "min_tokens": 2}, optim={"steps": 1})
    final = train(load_recipe(path), data_dir=corpus, quiet=True)
    lm = anyorder.load(final)
    for text in held_out_texts(lm, final.parent):
        assert (text == lm.tokenizer.cls_token_id).nonzero()[0].tolist() == [0]


def test_the_figures_are_those_of_a_plain_loop(tiny_lm):
    rows = [np.array(tiny_lm.tokenizer(t)["input_ids"]) for t in ("the old man .", "the door opened into the sea .")]
    special, mask = set(tiny_lm.tokenizer.all_special_ids), tiny_lm.conditionals.mask_id
    total, count = 0.0, 0
    for row in rows:
        free = [i for i, token in enumerate(row) if token not in special]
        for k, i in enumerate(free):
            tokens = torch.tensor(row[None])
            tokens[0, free[k:]] = mask
            total += float(tiny_lm.conditionals(tokens, torch.tensor([[i]]))[0, 0, row[i]])
            count += 1
    found = order_perplexity(tiny_lm, rows, "sequential")
    assert found.value == pytest.approx(math.exp(-total / count), rel=1e-4)
    assert found.low < found.value < found.high
    assert order_perplexity(tiny_lm, rows, "random").value != found.value


def test_accuracy_is_one_where_the_model_knows_and_none_where_it_is_wrong(tiny_lm):
    class Knowing:
        mask_id, pad_id, vocab_size = (getattr(tiny_lm.conditionals, n) for n in ("mask_id", "pad_id", "vocab_size"))
        off = 0

        def __call__(self, tokens, positions):
            right = torch.nn.functional.one_hot(
                (self.truth.gather(1, positions) + self.off) % self.vocab_size, self.vocab_size
            )
            return right.double().log()

    knowing = Knowing()
    row = tiny_lm.tokenizer("the old man opened the door .", return_tensors="pt")["input_ids"]
    knowing.truth = row.repeat(4, 1)
    lm = replace(tiny_lm, conditionals=knowing)
    rows = [row[0].numpy()] * 4
    assert blank_accuracy(lm, rows).value == 1
    knowing.off = 1
    assert blank_accuracy(lm, rows).value == 0


def test_blanks_stand_where_the_truth_stood(final):
    lm = anyorder.load(str(final))
    blocks = held_out_texts(lm, final.parent)
    for one in filled_blanks(lm, blocks, 2, count=5):
        assert one.text.count("___") == len(one.truth) == len(one.found) == 2
