"""fill and generate through every kind of tokenizer, with a tiny random model behind it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import FillMaskPipeline, RobertaConfig, RobertaForMaskedLM

import anyorder

KINDS = ["wordpiece", "byte_level", "sentencepiece", "word"]


@pytest.fixture(scope="module")
def models(tokenizers: dict, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = {}
    for kind, tokenizer in tokenizers.items():
        path: Path = tmp_path_factory.mktemp(kind)
        config = RobertaConfig(
            vocab_size=len(tokenizer) + 5,  # padded, as many checkpoints are
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            max_position_embeddings=40, pad_token_id=tokenizer.pad_token_id, initializer_range=0.5, type_vocab_size=1,
        )  # fmt: skip
        with torch.random.fork_rng():
            torch.manual_seed(1)
            RobertaForMaskedLM(config).save_pretrained(path)
        tokenizer.save_pretrained(path)
        out[kind] = anyorder.load(str(path))
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["the quick ___ fox .", "___ fox jumps", "over the lazy ___"])
def test_one_blank_is_fill_mask_for_every_tokenizer(models, kind, text):
    if kind == "wordpiece":
        text = text.replace("jumps", "run")
    lm = models[kind]
    theirs = FillMaskPipeline(model=lm.model, tokenizer=lm.tokenizer)(
        text.replace("___", lm.tokenizer.mask_token), top_k=8
    )
    ours = lm.fill(text, top=40, whole_words=False, special_tokens=True)
    by_token = {c.tokens[_slot(lm, text)]: math.exp(c.log_prob) for c in ours}
    for answer in theirs:
        # Pieces that spell one text are listed once, so some may be missing, but none may differ.
        if answer["token"] in by_token:
            assert by_token[answer["token"]] == pytest.approx(answer["score"], abs=1e-5)
    assert len(by_token) >= 5


def _slot(lm: Any, text: str) -> int:
    ids = lm.tokenizer(text.replace("___", lm.tokenizer.mask_token))["input_ids"]
    return ids.index(lm.tokenizer.mask_token_id)


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_blank_is_filled_by_a_word_and_the_rest_stays_verbatim(models, kind):
    for c in models[kind].fill("the  quick ___ fox , ___ .".replace(" , ", " " if kind == "word" else " , "), top=10):
        assert c.text.startswith("the  quick ")
        assert c.text.endswith(" .")
        assert f" {c.fills[0]} fox " in c.text
        assert all(c.fills), c


@pytest.mark.parametrize("kind", KINDS)
def test_whole_words_retokenise_to_what_the_model_saw(models, kind):
    lm = models[kind]
    tokens = [c for c in lm.fill("over the ___ dog", top=10) if c.fills[0] in ("quick", "brown", "fox", "the", "lazy")]
    for c in tokens:
        assert tuple(lm.tokenizer(c.text)["input_ids"]) == c.tokens


@pytest.mark.parametrize("kind", [*KINDS, "character"])
def test_generation_scatters_and_frames_in_every_spelling(models, kind):
    lm = models[kind]
    words = ["KL", "MN"] if kind == "character" else ["quick", "lazy"]
    (one,) = lm.generate(scatter=" ".join(words), length=14)
    assert len(one.tokens) == 14
    assert one.text.index(words[0]) < one.text.rindex(words[1])
    (framed,) = lm.generate(f"{words[0]} ... {words[1]}", length=12)
    assert framed.text.startswith(words[0])
    assert framed.text.endswith(words[1])
    assert not set(one.tokens) & set(lm.tokenizer.all_special_ids)


def test_proteins_are_written_without_spaces(models):
    lm = models["character"]
    for c in lm.fill("EVQL___{2}SGG___L"):
        assert len(c.text) == len("EVQLxxSGGxL")
        assert " " not in c.text
    (one,) = lm.generate("EVQL...SGG", length=12)
    assert len(one.text) == 12
    assert one.text.startswith("EVQL")
    assert one.text.endswith("SGG")
