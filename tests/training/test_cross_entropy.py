"""Cross-entropy in slices: torch's own is the truth."""

import pytest
import torch
from torch.nn import functional as F

from anyorder.training import cross_entropy as module
from anyorder.training.cross_entropy import cross_entropy


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("numbers", [3, 26, 10**6])
def test_values_and_gradients_are_torchs(monkeypatch, rows, smoothing, numbers):
    monkeypatch.setattr(module, "_SLICE", numbers)  # less than a row, two rows, all of them
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(13, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.randint(13, (rows,), generator=generator)
    scale = torch.rand(rows, generator=generator, dtype=torch.float64)
    mine = cross_entropy(hidden @ weight.T, target, smoothing)
    truth = F.cross_entropy(hidden @ weight.T, target, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(mine, truth, rtol=1e-12, atol=1e-12)
    given = torch.autograd.grad((mine * scale).sum(), [hidden, weight])
    wanted = torch.autograd.grad((truth * scale).sum(), [hidden, weight])
    torch.testing.assert_close(given, wanted, rtol=1e-12, atol=1e-12)


def test_a_second_gradient_is_refused_rather_than_wrong():
    logits = torch.randn(2, 3, requires_grad=True) * 1.0
    loss = cross_entropy(logits, torch.tensor([0, 1])).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="already taken"):
        loss.backward()


def test_an_evaluation_leaves_the_logits_alone():
    logits = torch.randn(2, 3)
    before = logits.clone()
    cross_entropy(logits, torch.tensor([0, 1]))
    assert torch.equal(logits, before)
