"""The faster layer of ModernBERT against transformers' own: values, gradients, and whatever changes its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from anyorder.models.modernbert import Layer, _by_row, _Gated, _Rotated
from anyorder.models.narrow import narrow
from tiny import tiny_model

SETTINGS = {
    "usual": {},
    "biases": {"mlp_bias": True, "attention_bias": True},
    "another activation": {"hidden_activation": "silu"},
    "plain attention": {"attn_implementation": "eager"},
}


def texts(rows: int = 3, n: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and their padding mask, longer than the tiny model's local attention reaches."""
    tokens = torch.randint(5, 60, (rows, n), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(tokens)
    mask[0, 18:] = 0  # a padded position still sees a word: plain attention has no answer without one
    return tokens, mask


# Flat positions of three texts of 20.
ASKED = {
    "even": (1, 17, 25, 30, 41, 59),  # two of each
    "uneven": (1, 14, 25, 50),  # two of the first, one of each other
    "one text": (25, 30),  # none of the first and the last
    "most": (*range(18), 25, 50),  # too many of the first for fewer queries
    "in disorder": (50, 1, 25, 14),
}
EVEN = ASKED["even"]


def both(model: Any, asked: Sequence[int] = EVEN) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states at a few positions, by the faster layers and by transformers' own."""
    tokens, mask = texts()
    asked = torch.tensor(asked)
    fast = narrow(model).train(model.training)(input_ids=tokens, attention_mask=mask, asked=asked)[0]
    return fast, model.base_model(input_ids=tokens, attention_mask=mask)[0].flatten(0, 1)[asked]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("asked", ASKED)
def test_values_and_gradients_are_those_of_transformers(setting: str, gradients: bool, asked: str) -> None:
    changes = dict(SETTINGS[setting])
    attention = changes.pop("attn_implementation", "sdpa")
    model = tiny_model("modernbert", **changes).double()
    model.set_attn_implementation(attention)
    with torch.set_grad_enabled(gradients):
        fast, slow = both(model, ASKED[asked])
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)  # transformers turns in single precision
    if gradients:
        weigh = torch.randn(slow.shape, generator=torch.Generator().manual_seed(1), dtype=slow.dtype)
        parameters = [p for p in model.base_model.parameters() if p.requires_grad]
        ours = torch.autograd.grad((fast * weigh).sum(), parameters)
        theirs = torch.autograd.grad((slow * weigh).sum(), parameters)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_dropout_is_that_of_transformers() -> None:
    model = tiny_model("modernbert", mlp_dropout=0.5, attention_dropout=0.3).double().train()
    model.set_attn_implementation("eager")  # the fused kernel draws its own mask
    layer = model.model.layers[0]
    hidden = torch.randn(2, 6, 32, dtype=torch.float64)
    angles = model.model.rotary_emb(hidden, torch.arange(6)[None], layer.attention_type)
    given = {"attention_mask": None, "position_embeddings": angles}
    torch.manual_seed(0)
    slow = layer(hidden, **given)
    torch.manual_seed(0)
    fast = Layer(layer, last=False)(hidden, asked=None, **given)
    # transformers turns in single precision, and hidden states of size 1 are not normalised here: up to 3e-5 over 300
    # draws. A dropout that is missing or another mask would differ by 0.1 and more.
    torch.testing.assert_close(fast, slow, atol=1e-4, rtol=1e-4)


def test_half_precision_keeps_its_dtype_and_rotates_in_single_precision() -> None:
    """As transformers does: in bfloat16 a turn by hundreds of positions would be lost."""
    model = tiny_model("modernbert").bfloat16()
    with torch.no_grad():
        fast, slow = both(model)
    assert fast.dtype == torch.bfloat16
    torch.testing.assert_close(fast, slow, atol=0.05, rtol=0.05)


def test_an_adapter_is_not_passed_over() -> None:
    """LoRA and the like put another module in the place of a matrix; taking its weight alone would leave it out."""

    class Adapted(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + x.mean(-1, keepdim=True)

    model = tiny_model("modernbert").double()
    for layer in model.model.layers:
        layer.mlp.Wi.__class__ = layer.attn.Wqkv.__class__ = Adapted
    with torch.no_grad():
        fast, slow = both(model)
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)


def test_questions_are_put_to_the_right_rows() -> None:
    at, real = _by_row(torch.tensor([0, 7, 9]), 3, 4)
    assert at.tolist() == [[0], [3], [1]]
    assert real is None
    at, real = _by_row(torch.tensor([1, 3, 9]), 3, 4)
    assert at.tolist() == [[1, 3], [0, 0], [1, 0]]
    assert real.tolist() == [[True, True], [False, False], [True, False]]
    assert _by_row(torch.tensor([0, 1, 2, 9]), 3, 4) == (None, None)  # three of four: hardly less than all
    assert _by_row(torch.tensor([9, 0, 7]), 3, 4) == (None, None)  # the answers would come in another order
    assert _by_row(torch.tensor([], dtype=torch.long), 3, 4) == (None, None)


def test_gradients_are_those_of_small_differences() -> None:
    torch.manual_seed(0)
    qkv = torch.randn(2, 3, 3, 2, 4, dtype=torch.double, requires_grad=True)
    angle = torch.randn(1, 3, 1, 2, dtype=torch.double).mul(1j).exp()
    assert torch.autograd.gradcheck(lambda x: _Rotated.apply(x.clone(), angle, 2), (qkv,))  # it overwrites its argument
    assert torch.autograd.gradcheck(_Gated.apply, (torch.randn(3, 8, dtype=torch.double, requires_grad=True),))
