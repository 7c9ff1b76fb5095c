"""Layers with their matrices turned: the same layers, and the reader uses them where they pay."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from anyorder.models import memory as memory_module
from anyorder.models.layers import layers_of
from anyorder.models.memory import Reader
from anyorder.models.ordered import FAMILIES
from anyorder.models.turned import turned
from tiny import VOCAB, tiny_model

MASK = 4


def answers(reader: Reader, rows: int) -> Tensor:
    """[rows, K, H] along one order of texts whose first token is given."""
    tokens = torch.randint(5, len(VOCAB), (rows, 17), generator=torch.Generator().manual_seed(0))
    given = torch.arange(17).expand(rows, 17) < 1
    found = []
    with torch.inference_mode():
        memory = reader.begin(tokens, given, torch.zeros_like(given))
        for position in range(16, 0, -1):
            at = torch.full((rows, 1), position)
            found.append(reader.ask(memory, at))
            memory = reader.read(memory, at, tokens[:, position : position + 1])
    return torch.cat(found, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_matrices_are_copied_by_columns_and_all_else_is_shared(family: str) -> None:
    layers = layers_of(tiny_model(family)).layers
    for layer, copy in zip(layers, turned(layers), strict=True):
        copies = dict(copy.named_modules())
        for name, module in layer.named_modules():
            assert (copies[name] is module) is False
            for key, parameter in module.named_parameters(recurse=False):
                other = getattr(copies[name], key)
                assert torch.equal(other, parameter)
                by_columns = isinstance(module, nn.Linear) and key == "weight"
                assert parameter.is_contiguous()
                assert other.t().is_contiguous() if by_columns else other is parameter


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rows", [16, 60])
def test_answers_are_those_of_the_layers_themselves(family: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(family)
    fast, used = Reader(model, MASK), []
    monkeypatch.setattr(memory_module, "turned", lambda layers: used.append(turned(layers)) or used[-1])
    found = answers(fast, rows)
    assert len(used) == 1
    for p in model.parameters():  # a model that was trained on is copied anew
        p.data.mul_(1.1)
    again = answers(fast, rows)
    monkeypatch.setattr(memory_module, "PAYS", 10**9)
    torch.testing.assert_close(again, answers(fast, rows), atol=1e-5, rtol=1e-5)
    assert len(used) == 2
    assert not torch.allclose(found, again, atol=1e-3)


def test_what_replaces_a_forward_is_left_alone() -> None:
    layers = layers_of(tiny_model("bert")).layers
    query = layers[0].attention.self.query
    query.forward = lambda hidden: hidden
    copy = turned(layers)[0].attention.self
    assert copy.query.weight is query.weight
    assert copy.key.weight.t().is_contiguous()


def test_double_precision_is_left_alone() -> None:
    layers = layers_of(tiny_model("bert").double()).layers
    assert turned(layers) is layers
