"""Checkpoints that come with vocab.txt and nothing else for a tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import anyorder
from anyorder.errors import AnyorderError
from anyorder.models.vocab import tokenizer_from_vocab
from tiny import VOCAB, tiny_model

ANTIBODY = ["<s>", "<pad>", "</s>", "<unk>", *"ACDEFGHIKLMNPQRSTVWY", "<mask>"]


def write(path: Path, entries: list[str]) -> Path:
    path.write_text("\n".join(entries) + "\n")
    return path


def test_an_antibody_model_with_its_vocab(tmp_path: Path) -> None:
    """The layout of published antibody RoBERTas: one letter a token, pad_id 1, the mask last."""
    changes = {"vocab_size": 25, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    model = tiny_model("roberta", **changes)
    model.save_pretrained(tmp_path)
    write(tmp_path / "vocab.txt", ANTIBODY)
    lm = anyorder.load(tmp_path)
    assert lm.max_length == 64 - 2
    assert (lm.conditionals.mask_id, lm.conditionals.pad_id, lm.conditionals.vocab_size) == (24, 1, 25)
    ids = lm.tokenizer("EVQL<mask>ES")["input_ids"]
    assert ids == [0, *(ANTIBODY.index(a) for a in "EVQL"), 24, *(ANTIBODY.index(a) for a in "ES"), 2]
    assert lm.tokenizer.decode(ids, skip_special_tokens=True) == "EVQLES"
    assert lm.tokenizer("E V Q")["input_ids"] == lm.tokenizer("EVQ")["input_ids"]
    batch = lm.tokenizer(["EVQL<mask>ES", "E<mask>"], padding=True, return_tensors="pt")["input_ids"]
    log_q = lm.conditionals(batch, torch.tensor([[5], [2]]))
    with torch.no_grad():
        expected = model(input_ids=batch[1:, :4]).logits[0, 2].log_softmax(-1)
    torch.testing.assert_close(log_q[1, 0], expected, atol=1e-4, rtol=0)


def test_word_pieces_are_cased_if_the_vocabulary_is(tmp_path: Path) -> None:
    lower = tokenizer_from_vocab(write(tmp_path / "lower.txt", VOCAB))
    assert lower.tokenize("The cats WALKED [MASK].") == ["the", "cat", "##s", "walked", "[MASK]", "."]
    cased = tokenizer_from_vocab(write(tmp_path / "cased.txt", [*VOCAB, "The"]))
    assert cased.tokenize("The cat The the") == ["The", "cat", "The", "the"]
    assert cased.mask_token_id == VOCAB.index("[MASK]")


@pytest.mark.parametrize(
    ("entries", "message"),
    [(ANTIBODY[:-1], "has no mask token"), ([*ANTIBODY, "A"], "lists a token twice")],
)
def test_vocabularies_that_cannot_be_used(tmp_path: Path, entries: list[str], message: str) -> None:
    with pytest.raises(AnyorderError, match=message):
        tokenizer_from_vocab(write(tmp_path / "vocab.txt", entries))
