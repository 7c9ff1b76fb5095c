"""u-PMLM-R against Shaw's definition, pair by pair, and its properties."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from anyorder.models.build import build
from anyorder.models.relative import RelativeBertForMaskedLM, RelativeSelfAttention, by_distance, by_pair
from anyorder.models.relative_config import RelativeBertConfig

SIZES: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 24, "layers": 2, "heads": 3, "intermediate": 32, "max_length": 64, "pad_id": 0,
}  # fmt: skip


def model(clip: int = 127, seed: int = 0) -> RelativeBertForMaskedLM:
    """Weights large enough that positions matter, in float64 so that equalities can be tight."""
    made = build("relative", seed=seed, max_relative_position=clip, initializer_range=0.3, dropout=0.0, **SIZES)
    return made.eval().double()  # type: ignore[return-value]  # `build` promises any model


def naive(attention: RelativeSelfAttention, x: Tensor) -> Tensor:
    """Shaw et al. (2018), eq 3 and 4, one pair (i, j) at a time; x [N, H]."""
    d, clip = attention.attention_head_size, attention.clip
    q, k, v = (f(x).view(len(x), -1, d) for f in (attention.query, attention.key, attention.value))
    z = torch.zeros_like(q)
    for h in range(q.shape[1]):
        for i in range(len(x)):
            bins = [max(-clip, min(clip, j - i)) + clip for j in range(len(x))]
            e = torch.stack([q[i, h] @ (k[j, h] + attention.relative_key.weight[b]) for j, b in enumerate(bins)])
            w = torch.softmax(e / math.sqrt(d), 0)
            z[i, h] = sum(w[j] * (v[j, h] + attention.relative_value.weight[b]) for j, b in enumerate(bins))
    return z.flatten(-2)


@pytest.mark.parametrize(("n", "clip"), [(1, 4), (5, 127), (9, 3), (8, 7)])
def test_attention_is_shaws(n: int, clip: int) -> None:
    attention = model(clip).bert.encoder.layer[0].attention.self
    x = torch.randn(2, n, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = torch.stack([naive(attention, row) for row in x])
        torch.testing.assert_close(attention(x)[0], expected)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_by_pair_and_by_distance(n: int) -> None:
    x = torch.randn(3, n, 2 * n, generator=torch.Generator().manual_seed(0))
    pairs = by_pair(x)
    for i in range(n):
        for j in range(n):
            torch.testing.assert_close(pairs[:, i, j], x[:, i, j - i + n])
    torch.testing.assert_close(by_pair(by_distance(pairs)), pairs)
    assert by_distance(pairs).count_nonzero() == pairs.count_nonzero()


def test_shift_invariance() -> None:
    """The same words further right, behind a prefix that is not attended to, get the same logits."""
    m = model()
    words = torch.randint(1, 40, (1, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        here = m(input_ids=words).logits
        for shift in (1, 7, 40):
            tokens = torch.cat([torch.zeros(1, shift, dtype=torch.long), words], 1)
            there = m(input_ids=tokens, attention_mask=(tokens != 0).long()).logits[:, shift:]
            torch.testing.assert_close(there, here)
        # and order does matter
        assert (m(input_ids=words.flip(1)).logits.flip(1) - here).abs().max() > 0.1


def test_only_the_surroundings_within_the_clip_tell_positions_apart() -> None:
    """Beyond the clip all distances look alike: swapping two distant words changes nothing at the front."""
    m = model(clip=2)
    one_layer = m.bert.encoder.layer[0].attention.self
    x = torch.randn(1, 10, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    swapped = x[:, [0, 1, 2, 3, 4, 5, 9, 7, 8, 6]]
    with torch.no_grad():
        torch.testing.assert_close(one_layer(x)[0][:, :4], one_layer(swapped)[0][:, :4])


def test_gradients_reach_every_weight() -> None:
    m = model().train()
    tokens = torch.randint(1, 40, (3, 20), generator=torch.Generator().manual_seed(0))
    m(input_ids=tokens, labels=tokens).loss.backward()
    without = [name for name, p in m.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []
    assert not any("position_embeddings" in name for name, _ in m.named_parameters())


def test_attention_gradcheck() -> None:
    attention = model(clip=2).bert.encoder.layer[0].attention.self
    x = torch.randn(1, 4, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: attention(x)[0], x)


LOAD = """
import sys
{first}
{second}
assert "anyorder.models.relative" not in sys.modules
model = AutoModelForMaskedLM.from_pretrained(sys.argv[1])
print(type(model).__name__, model.bert.encoder.layer[1].attention.self.relative_value.weight.sum().item())
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from transformers import AutoModelForMaskedLM", "import anyorder"),
        # modeling_bert imports the registry while it is itself half imported.
        ("import anyorder; from transformers import BertForMaskedLM", "from transformers import AutoModelForMaskedLM"),
    ],
)
def test_auto_model_loads_it_after_import_anyorder(tmp_path: Path, first: str, second: str) -> None:
    m = model().float()
    m.save_pretrained(tmp_path)
    script = LOAD.format(first=first, second=second)
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    name, total = run.stdout.split()
    assert name == "RelativeBertForMaskedLM"
    assert math.isclose(float(total), m.bert.encoder.layer[1].attention.self.relative_value.weight.sum().item())


def test_importing_anyorder_imports_neither_torch_nor_transformers() -> None:
    script = "import sys, anyorder; print(*(m for m in ('torch', 'transformers') if m in sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_config_round_trip(tmp_path: Path) -> None:
    config = RelativeBertConfig(max_relative_position=9, hidden_size=24, num_attention_heads=3)
    config.save_pretrained(tmp_path)
    again = RelativeBertConfig.from_pretrained(tmp_path)
    assert again.max_relative_position == 9
    assert again.hidden_size == 24
