"""The judge against one token at a time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from anyorder.errors import AnyorderError
from anyorder.metrics.text import unigram_entropy
from anyorder.studies import causal
from anyorder.studies import judge as module
from anyorder.studies.judge import Judge, load_judge


@pytest.fixture(scope="module")
def judge(tiny_lm: Any) -> Judge:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(
            vocab_size=97, n_positions=32, n_embd=16, n_layer=1, n_head=2, initializer_range=0.5, bos_token_id=2
        )
        model = GPT2LMHeadModel(config).eval()
    return Judge(model, tiny_lm.tokenizer)


def test_generative_perplexity_is_the_mean_over_tokens_one_at_a_time(judge, monkeypatch):
    texts = ["the cat sat on the mat", "a dog ran", "the the the the"]
    total, count = 0.0, 0
    for text in texts:
        ids = [2, *judge.tokenizer(text, add_special_tokens=False)["input_ids"]]
        for t in range(1, len(ids)):
            logits = judge.model(torch.tensor([ids[:t]])).logits[0, -1].detach()
            total -= float(logits.log_softmax(-1)[ids[t]])
            count += 1
    monkeypatch.setattr(module, "_ROWS", 2)
    found = judge.perplexity(texts)
    assert found.perplexity == pytest.approx(math.exp(total / count), rel=1e-4)
    assert found.tokens == count == 6 + 3 + 4
    assert found.entropy == pytest.approx(unigram_entropy([t.split() for t in texts]))
    assert found.to_dict().keys() == {"perplexity", "low", "high", "entropy", "tokens", "texts"}


def test_a_judge_without_an_opening_token_starts_at_the_second(judge):
    from types import SimpleNamespace

    plain = SimpleNamespace(bos_token_id=None, cls_token_id=None)
    assert judge.start == 2
    model = SimpleNamespace(config=SimpleNamespace(bos_token_id=None))
    assert Judge(model, plain).start is None  # type: ignore[arg-type]  # stand-ins with only what is read


def test_long_texts_are_judged_on_their_beginning_and_empty_ones_left_out(judge):
    assert judge.perplexity(["the cat " * 100, ""]).tokens == 31
    with pytest.raises(AnyorderError, match="no text"):
        judge.perplexity([""])


def test_a_judge_is_loaded_from_a_folder_or_refused_in_a_line(judge, tmp_path: Path):
    judge.model.save_pretrained(tmp_path / "gpt")
    judge.tokenizer.save_pretrained(tmp_path / "gpt")
    again = load_judge(str(tmp_path / "gpt"))
    texts = ["the cat sat"]
    assert again.perplexity(texts).perplexity == pytest.approx(judge.perplexity(texts).perplexity, rel=1e-5)
    with pytest.raises(AnyorderError, match="causal LM"):
        load_judge(str(tmp_path))


def test_the_judge_holds_few_logits_at_a_time(judge, monkeypatch):
    texts = ["the cat sat on the mat", "a dog ran", "the old man opened the door"]
    whole = judge.perplexity(texts).perplexity
    rows = []
    monkeypatch.setattr(causal, "_LOGITS", 97 * 7)  # one row of the longest text
    hook = judge.model.register_forward_pre_hook(
        lambda model, args, given: rows.append(len(given["input_ids"])), with_kwargs=True
    )
    assert judge.perplexity(texts).perplexity == pytest.approx(whole, rel=1e-5)
    hook.remove()
    assert rows == [1, 1, 1]
