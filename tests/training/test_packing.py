"""Packed rows: every text reads as if it stood alone, in every family that packs, and none is lost or cut."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.errors import AnyorderError
from anyorder.masking import Masker, UniformCount, collate
from anyorder.models.layers import first_position
from anyorder.training.objective import FIELDS, TokenLosses
from anyorder.training.packing import FAMILIES, check_family, pack, pack_batch, texts_of
from tiny import tiny_model

CLS, SEP, PAD = 2, 3, 0


def text(rng, n):
    return np.array([CLS, *rng.integers(5, 80, n), SEP])


@given(st.lists(st.integers(1, 30), max_size=60))
def test_packing_loses_nothing(lengths):
    texts = [[CLS, *range(10 * n, 11 * n), SEP] for n in lengths]
    blocks = list(pack(texts, 32))
    assert all(len(block) <= 32 for block in blocks)
    found = [part.tolist() for block in blocks for part in texts_of(np.array(block), CLS)]
    assert sorted(found) == sorted(texts)


def test_packing_leaves_little_room():
    rng = np.random.default_rng(0)
    texts = [[CLS, *range(int(n))] for n in rng.integers(5, 60, 2000)]
    blocks = list(pack(texts, 128))
    assert sum(map(len, texts)) / (128 * len(blocks)) > 0.97


@pytest.mark.parametrize("family", FAMILIES)
def test_a_packed_text_reads_only_itself(family):
    options = {"layer_types": ["full_attention"] * 2} if family == "modernbert" else {}
    model = tiny_model(family, **options).double()
    check_family(model)
    rng = np.random.default_rng(0)
    texts = [text(rng, n) for n in (5, 9, 3, 12, 1)]
    masker = Masker(UniformCount(), mask_id=4, vocab_size=80, special_ids=frozenset(range(5)))
    batch = collate(texts, [0, 0, 1, 1, 1], masker, PAD, [0, 1, 0, 1, 2])
    packed = pack_batch(batch, [len(t) for t in texts], [0, 0, 1, 1, 1], PAD, first_position(model))
    packed["attention_mask"] = packed["attention_mask"].double()
    assert packed["input_ids"].shape == (2, 22)
    losses = TokenLosses(model)
    together = losses(**{name: packed[name] for name in FIELDS if name in packed})
    alone = []
    for row, t in enumerate(texts):
        one = {name: batch[name][row : row + 1, : len(t)] for name in ("input_ids", "tokens", "masked")}
        alone.append(losses(*one.values(), torch.ones_like(one["tokens"])))
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=0)  # rotary angles are float32


def test_what_cannot_be_packed_is_refused():
    with pytest.raises(AnyorderError, match="does not know how albert"):
        check_family(tiny_model("albert"))
    with pytest.raises(AnyorderError, match="whole row"):
        check_family(tiny_model("modernbert"))
