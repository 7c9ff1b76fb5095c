"""Any checkpoint gets a head; what cannot is refused with a sentence."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from anyorder.errors import AnyorderError
from anyorder.models.build import build
from anyorder.models.task_heads import read_answerer, read_classifier
from remote_code import CODE_THAT_RUNS
from tiny import VOCAB, tiny_checkpoint_of, tiny_tokenizer

SIZES = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate": 24, "max_length": 64}


def built(kind: str, folder: Path) -> Path:
    """A model as our recipes make them, with a tokenizer that begins in [CLS] and ends in [SEP]."""
    build(kind, vocab_size=len(VOCAB), pad_id=0, cls_id=2, sep_id=3, initializer_range=0.5, **SIZES).save_pretrained(
        folder
    )
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["bert", "relative", "modernbert", "gpt2", "xlnet"])
def test_padding_changes_no_answer(kind: str, tmp_path: Path) -> None:
    """The token each head reads is the text's, not the padding's; token types only where the model has them."""
    ready = read_classifier(built(kind, tmp_path), ["no", "maybe", "yes"])
    assert ready.max_length == 64
    assert ("token_type_ids" in ready.tokenizer.model_input_names) == (kind in ("bert", "relative", "xlnet"))
    assert ready.model.config.id2label == {0: "no", 1: "maybe", 2: "yes"}
    ready.model.eval()
    texts = ["the old cat", "the old cat sat on the big red mat by the river"]
    with torch.no_grad():
        both = ready.model(**ready.tokenizer(texts, padding=True, return_tensors="pt")).logits
        each = [ready.model(**ready.tokenizer(text, return_tensors="pt")).logits for text in texts]
    torch.testing.assert_close(both, torch.cat(each), atol=1e-5, rtol=0)
    assert (both[0] - both[1]).abs().max() > 1e-4


@pytest.mark.parametrize("kind", ["bert", "relative", "modernbert", "gpt2", "xlnet"])
def test_every_kind_answers_questions(kind: str, tmp_path: Path) -> None:
    ready = read_answerer(built(kind, tmp_path))
    with torch.no_grad():
        inputs = ready.tokenizer("the cat ?", "the old man sat", return_tensors="pt")
        answer = ready.model(**inputs)
    assert answer.start_logits.shape == answer.end_logits.shape == inputs["input_ids"].shape


def test_regression_has_one_output(tmp_path: Path) -> None:
    ready = read_classifier(built("bert", tmp_path), [])
    assert ready.model.config.problem_type == "regression"
    assert ready.model.config.num_labels == 1


def test_a_head_that_fits_is_kept_and_another_is_new(tmp_path: Path) -> None:
    ready = read_classifier(built("bert", tmp_path / "a"), ["no", "yes"])
    for part in (ready.model, ready.tokenizer):
        part.save_pretrained(tmp_path / "b")  # type: ignore[attr-defined]  # any model of two
    same = read_classifier(tmp_path / "b", ["no", "yes"]).model
    torch.testing.assert_close(same.classifier.weight, ready.model.classifier.weight)
    assert read_classifier(tmp_path / "b", ["a", "b", "c"]).model.classifier.weight.shape == (3, 16)


def test_a_tokenizer_without_padding_gets_the_end_of_text(tmp_path: Path) -> None:
    built("gpt2", tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token, tokenizer.eos_token = None, "[SEP]"
    tokenizer.save_pretrained(tmp_path)
    ready = read_classifier(tmp_path, ["no", "yes"])
    assert ready.tokenizer.pad_token == "[SEP]"


def lose(folder: Path, key: str) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file({k: v for k, v in weights.items() if key not in k}, folder / "model.safetensors", {"format": "pt"})


def poison(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["bert.embeddings.word_embeddings.weight"][5, 0] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: lose(folder, "layer.0.attention.self.query"), "lack bert.encoder.layer.0"),
        (poison, "NaN"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "cannot read"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot read"),
    ],
)
def test_what_cannot_be_used_is_refused(spoil: Any, says: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint_of("bert", tmp_path)
    spoil(folder)
    with pytest.raises(AnyorderError, match=says):
        read_classifier(folder, ["no", "yes"])
    with pytest.raises(AnyorderError, match="there is no folder"):
        read_classifier(tmp_path / "nothing", ["no", "yes"])


def change_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_no_code_is_run_whoever_says_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unasked, transformers asks the terminal, and runs the code for a "y"."""
    folder, trace = tiny_checkpoint_of("bert", tmp_path / "bert"), tmp_path / "trace"
    (folder / "evil.py").write_text(CODE_THAT_RUNS.format(trace=str(trace)))
    head = dict.fromkeys(("AutoModel", "AutoModelForSequenceClassification"), "evil.Model")
    change_config(folder, model_type="evil", auto_map={"AutoConfig": "evil.Config", **head})
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\ny\n"))
    with pytest.raises(AnyorderError, match=r"comes with code of its own \(evil.py\): choose"):
        read_classifier(folder, ["no", "yes"])
    assert not trace.exists()


def test_no_kernel_is_fetched(tmp_path: Path) -> None:
    folder = tiny_checkpoint_of("bert", tmp_path)
    change_config(folder, attn_implementation="some/kernel")
    with pytest.raises(AnyorderError, match="asks for code from the hub"):
        read_answerer(folder)
