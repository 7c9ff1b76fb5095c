"""Attention as a measure of dependence."""

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.models.attention import attention_influence, attention_of


def test_attention_is_read_and_the_model_left_as_it_was(tiny_lm):
    tokens = tiny_lm.tokenizer("the old man opened the door .", return_tensors="pt")["input_ids"]
    usual = tiny_lm.model.config._attn_implementation
    before = tiny_lm.conditionals(tokens, torch.tensor([[2]]))
    attention = attention_of(tiny_lm.model, tokens)
    assert attention is not None
    assert attention.shape == (1, tokens.shape[1], tokens.shape[1])
    torch.testing.assert_close(attention, attention.transpose(1, 2))
    assert tiny_lm.model.config._attn_implementation == usual
    torch.testing.assert_close(tiny_lm.conditionals(tokens, torch.tensor([[2]])), before)


def test_influence_by_attention_joins_free_positions_only_and_does_not_see_their_tokens(tiny_lm):
    tokens = tiny_lm.tokenizer("the old man opened the door .", return_tensors="pt")["input_ids"].repeat(2, 1)
    free = torch.zeros_like(tokens, dtype=torch.bool)
    free[:, 2:6] = True
    tokens[1, 2:6] = tokens[0, 2:6].flip(0)
    found, rows = attention_influence(tiny_lm.model, tiny_lm.conditionals.mask_id)(tokens, free)
    assert rows == 2
    assert (found.amax((1, 2)) == 1).all()
    assert (found[~(free[:, :, None] & free[:, None, :])] == 0).all()
    torch.testing.assert_close(found[0], found[1])


def test_generate_takes_it(tiny_lm):
    options = {"length": 12, "sampler": "adaptive", "seed": 3}
    one = tiny_lm.generate(influence="attention", **options)[0]
    assert one.passes > 0
    assert one == tiny_lm.generate(influence="attention", **options)[0]
    with pytest.raises(AnyorderError, match="unknown influence"):
        tiny_lm.generate(influence="gravity", **options)
