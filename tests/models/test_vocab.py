"""Checkpoints that come with vocab.txt and nothing else for a tokenizer."""

from __future__ import annotations

import json
import re
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


SMILES = [
    *("[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "c", "C", "(", ")", "O", "1", "2", "=", "N", ".", "n"),
    *("Cl", ">>", "-", "[C@H]", "[O-]", "Br", "#", "/", "[nH]", "[Na+]", "%10", "[14C]"),
]


@pytest.mark.parametrize("family", ["albert", "bert"])
def test_molecules(tmp_path: Path, family: str) -> None:
    """The layout of a published ALBERT over SMILES: vocab.txt, a pickle, and tokenizer files that say nothing."""
    model = tiny_model(family, vocab_size=len(SMILES))
    model.save_pretrained(tmp_path)
    write(tmp_path / "vocab.txt", SMILES)
    write(tmp_path / "tokenizer_config.json", ["{}"])
    names = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
    write(tmp_path / "special_tokens_map.json", [json.dumps(names | {"mask_token": "[MASK]"})])
    lm = anyorder.load(tmp_path)
    text = "C[C@H](Cl)c1c[nH]c1.[Na+]>>BrC%10=O"
    pieces = re.findall(r"\[[^\]]+\]|%\d\d|Cl|Br|>>|.", text)
    assert lm.tokenizer.tokenize(text) == pieces
    score = lm.score(text, method="pll")
    assert score.tokens == len(pieces)
    ids = torch.tensor([[SMILES.index(p) for p in ("[CLS]", *pieces, "[SEP]")]])
    expected = 0.0
    with torch.no_grad():
        for t in range(1, ids.shape[1] - 1):
            masked = ids.clone()
            masked[0, t] = SMILES.index("[MASK]")
            expected += float(model(input_ids=masked).logits[0, t].log_softmax(-1)[ids[0, t]])
    assert score.log_prob == pytest.approx(expected, abs=1e-3)
    best = lm.fill("C[C@H](___)c1___[nH]c1", top=1)[0]
    assert best.text == f"C[C@H]({best.fills[0]})c1{best.fills[1]}[nH]c1"


def test_a_tokenizer_config_counts_where_transformers_reads_the_vocabulary(tmp_path: Path) -> None:
    tiny_model("bert", vocab_size=len(VOCAB)).save_pretrained(tmp_path)
    write(tmp_path / "vocab.txt", VOCAB)
    write(tmp_path / "tokenizer_config.json", ['{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}'])
    assert anyorder.load(tmp_path).tokenizer.tokenize("the Cat") == ["the", "[UNK]"]


def test_a_tokenizer_config_without_a_vocabulary(tmp_path: Path) -> None:
    tiny_model("roberta").save_pretrained(tmp_path)
    write(tmp_path / "tokenizer_config.json", ["{}"])
    with pytest.raises(AnyorderError, match="has no tokenizer: save it beside the model"):
        anyorder.load(tmp_path)


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


def test_a_damaged_vocabulary_is_refused_in_a_sentence(tmp_path: Path) -> None:
    tiny_model("bert").save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_bytes("\n".join(VOCAB).encode()[:50] + b"\x90\xff")
    with pytest.raises(AnyorderError, match=r"cannot read the vocabulary of .*utf-8") as refusal:
        anyorder.load(tmp_path)
    assert "\n" not in str(refusal.value)
