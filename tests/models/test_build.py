"""The four kinds of model we train."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.models.build import KINDS, build

SIZES: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 32, "layers": 3, "heads": 4, "intermediate": 48, "max_length": 20, "pad_id": 0,
    "cls_id": 2, "sep_id": 3,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_build(kind: str) -> None:
    before = torch.random.get_rng_state()
    model = build(kind, **SIZES)
    assert torch.equal(before, torch.random.get_rng_state())
    tokens = torch.randint(4, 50, (2, 20), generator=torch.Generator().manual_seed(0))
    assert model(input_ids=tokens).logits.shape == (2, 20, 50)
    assert model.training
    assert model.config.pad_token_id == 0
    for (name, a), b in zip(model.named_parameters(), build(kind, **SIZES).parameters(), strict=True):
        assert torch.equal(a, b), name
    other = build(kind, seed=1, **SIZES)
    assert not torch.equal(model.get_input_embeddings().weight, other.get_input_embeddings().weight)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_dropout(kind: str, dropout: float) -> None:
    model = build(kind, dropout=dropout, initializer_range=0.3, **SIZES)
    tokens = torch.randint(4, 50, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        same = torch.allclose(model(input_ids=tokens).logits, model(input_ids=tokens).logits, atol=1e-5)
    assert same == (dropout == 0.0)


def test_who_sees_whom() -> None:
    """The masked models see both sides at every distance; GPT sees the left alone."""
    tokens = torch.randint(4, 50, (1, 20), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, -1] = 4 + (tokens[0, -1] - 3) % 46
    for kind in KINDS:
        model = build(kind, initializer_range=0.3, **SIZES).eval()
        with torch.no_grad():
            moved = (model(input_ids=tokens).logits - model(input_ids=changed).logits)[0, 0].abs().max()
        assert (moved < 1e-6) == (kind == "gpt2"), kind


def test_modernbert_attends_globally_in_every_layer() -> None:
    assert set(build("modernbert", **SIZES).config.layer_types) == {"full_attention"}


def test_bad_sizes() -> None:
    with pytest.raises(AnyorderError, match="unknown kind of model 'lstm'"):
        build("lstm", **SIZES)
    with pytest.raises(AnyorderError, match="not a multiple of heads 5"):
        build("bert", **{**SIZES, "heads": 5})


def test_a_new_bert_attends_to_neighbours() -> None:
    """Before any training every head attends more to neighbours than to what is further away, whatever the words."""
    model = build("bert", dropout=0.0, attn_implementation="eager", **{**SIZES, "hidden_size": 96}).eval()
    tokens = torch.randint(4, 50, (64, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        heads = model(input_ids=tokens, output_attentions=True).attentions[0].mean(0)  # [heads, 20, 20]
    near, middle, far = (heads.diagonal(d, 1, 2).mean(1) for d in (1, 4, 12))
    assert (near > 1.2 * middle).all()
    assert (near > 1.2 * far).all()
