"""An encoder with another tokenizer: the same with the same one, and each word vector where its string went."""

import numpy as np
import pytest
import torch
from transformers import AutoModel, BertTokenizer

from anyorder import load
from anyorder.errors import AnyorderError
from anyorder.models.load import load_encoder
from anyorder.models.transplant import carry, start_bias, transplant
from anyorder.text.vocabulary import vocabulary
from tiny import SPECIAL, VOCAB, tiny_model, tiny_tokenizer

FAMILIES = ["bert", "roberta", "distilbert", "modernbert"]
TEXT = "the old man opened the door ."


def another_tokenizer(pad=0):
    """Cased words in another order, some of them new; [PAD] is number ``pad``."""
    special = [token for token in SPECIAL if token != "[PAD]"]
    words = [*reversed(VOCAB[len(SPECIAL) :]), "The", "sunday", "##ish"]
    tokens = [*special, *words]
    tokens.insert(pad, "[PAD]")
    vocab = {token: i for i, token in enumerate(tokens)}
    return BertTokenizer(vocab=vocab, do_lower_case=False, model_max_length=64)


def states(model, tokenizer, text=TEXT):
    inputs = tokenizer(text, return_tensors="pt")
    keep = {k: v for k, v in inputs.items() if k in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        return model.eval().base_model(**keep)[0]


@pytest.fixture(params=FAMILIES)
def headless(request, make_checkpoint, tmp_path):
    """A checkpoint of the encoder alone."""
    path = make_checkpoint(request.param, tmp_path / "whole")
    AutoModel.from_pretrained(path).save_pretrained(tmp_path / "encoder")
    tiny_tokenizer().save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def test_an_encoder_without_a_head_is_refused_as_a_model_and_taken_as_a_start(headless):
    with pytest.raises(AnyorderError, match="no masked-LM head"):
        load(str(headless))
    encoder = load_encoder(headless)
    assert encoder.missing
    assert not any(name.startswith(encoder.model.base_model_prefix + ".") for name in encoder.missing)


def test_the_same_tokenizer_gives_the_same_hidden_states(headless):
    encoder = load_encoder(headless)
    model, carried = transplant(encoder.model, encoder.tokenizer, encoder.tokenizer, encoder.missing)
    before, after = (states(one, encoder.tokenizer) for one in (encoder.model, model))
    torch.testing.assert_close(after, before, atol=1e-6, rtol=0)
    assert (carried.exact, carried.tokens) == (len(VOCAB), len(VOCAB))
    assert carried.new == encoder.missing


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pad", [0, 3])  # RoBERTa counts positions from the padding token's id
def test_known_words_give_the_same_hidden_states_in_another_vocabulary(family, pad):
    old, new = tiny_tokenizer(), another_tokenizer(pad)
    model = tiny_model(family, max_position_embeddings=80)
    grown, carried = transplant(model, old, new)
    assert grown.config.vocab_size == len(new) == carried.tokens
    assert grown.config.pad_token_id == new.pad_token_id == pad
    torch.testing.assert_close(states(grown, new), states(model, old), atol=1e-5, rtol=0)


def test_a_padding_token_of_a_lower_number():
    """RoBERTa's own is number 1; positions then begin earlier in the new table than in the old one."""
    old, new = another_tokenizer(3), tiny_tokenizer()
    model, _ = transplant(tiny_model("roberta", max_position_embeddings=80), new, old)
    grown, _ = transplant(model, old, new)
    torch.testing.assert_close(states(grown, new), states(model, old), atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_follow_their_words(family):
    """Where input and output share their vectors, a word's logit less its bias is the same under another number."""
    old, new = tiny_tokenizer(), another_tokenizer()
    model = tiny_model(family)
    grown, _ = transplant(model, old, new)
    before = model.get_output_embeddings().bias.detach()
    words = [w for w in VOCAB if w in new.get_vocab()]
    one = model(**keep(old)).logits[0] - before
    two = grown(**keep(new)).logits[0]
    ids = [new.get_vocab()[w] for w in words]
    torch.testing.assert_close(two[:, ids], one[:, [old.get_vocab()[w] for w in words]], atol=1e-4, rtol=0)
    assert not grown.get_output_embeddings().bias.any()


def keep(tokenizer):
    inputs = tokenizer(TEXT, return_tensors="pt")
    return {k: v for k, v in inputs.items() if k in ("input_ids", "attention_mask")}


def test_how_each_vector_is_found():
    old, new = tiny_tokenizer(), another_tokenizer()
    vectors = torch.randn(len(VOCAB), 8)
    ids, place = old.get_vocab(), new.get_vocab()
    carried, counts = carry(vectors, vocabulary(old, len(old)), vocabulary(new, len(new)))
    assert torch.equal(carried[place["door"]], vectors[ids["door"]])
    assert torch.equal(carried[place["[MASK]"]], vectors[ids["[MASK]"]])
    assert torch.equal(carried[place["The"]], vectors[ids["the"]])
    ordinary = vectors[[i for i in range(len(VOCAB)) if VOCAB[i] not in SPECIAL]].mean(0)
    torch.testing.assert_close(carried[place["sunday"]], ordinary)  # the old tokenizer has no piece for it
    assert counts == {"tokens": len(new), "exact": len(VOCAB), "lower_cased": 1, "pieces": 0, "mean": 2}


def test_a_word_of_several_pieces_is_their_mean():
    old = tiny_tokenizer()
    words = [*SPECIAL, "catly", "##edly"]
    new = BertTokenizer(vocab={w: i for i, w in enumerate(words)}, do_lower_case=False)
    vectors = torch.randn(len(VOCAB), 8)
    ids = old.get_vocab()
    carried, counts = carry(vectors, vocabulary(old, len(old)), vocabulary(new, len(new)))
    torch.testing.assert_close(carried[5], vectors[[ids["cat"], ids["##ly"]]].mean(0))
    torch.testing.assert_close(carried[6], vectors[[ids["##ed"], ids["##ly"]]].mean(0))
    assert counts["pieces"] == 2


def test_the_bias_starts_at_log_frequencies():
    model = tiny_model("bert")
    counts = np.arange(len(VOCAB), dtype=float)
    start_bias(model, counts)
    q = model.get_output_embeddings().bias.detach().double().softmax(-1)
    torch.testing.assert_close(q, torch.tensor((counts + 1) / (counts + 1).sum()), atol=1e-6, rtol=1e-4)
