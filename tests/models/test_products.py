"""Products by oneDNN are the products, with their gradients; a model's twin shares its weights and changes nothing."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.nn import functional

from anyorder.conditionals import ModelConditionals, ModelOrdered
from anyorder.models import products
from anyorder.models.ordered import FAMILIES
from anyorder.models.products import Linear, faster, linear
from tiny import VOCAB, tiny_model

MASK, PAD = 4, 0


def on(monkeypatch: pytest.MonkeyPatch, yes: bool) -> None:
    monkeypatch.setattr(products, "faster_by_onednn", lambda: yes)


@pytest.fixture
def onednn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """As on a CPU where oneDNN is the faster one; the shapes of what it multiplied."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    on(monkeypatch, True)
    seen: list[tuple[int, ...]] = []
    by_onednn = products.by_onednn
    monkeypatch.setattr(products, "by_onednn", lambda x, *rest: seen.append(tuple(x.shape)) or by_onednn(x, *rest))
    return seen


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(4, 24), (5, 24), (93, 24), (3, 7, 24), (2, 3, 5, 24)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("strides", ["plain", "by columns", "a part"])
def test_the_product_is_the_product(
    shape: tuple[int, ...], bias: bool, strides: str, onednn: list[tuple[int, ...]]
) -> None:
    x, weight, b = drawn(*shape), drawn(40, 24), drawn(40) if bias else None
    truth = functional.linear(x, weight, b)
    x, weight, b = (None if part is None else part.float() for part in (x, weight, b))
    if strides == "by columns":
        x, weight = x.transpose(-1, -2).contiguous().transpose(-1, -2), weight.t().contiguous().t()
    if strides == "a part":
        x, weight = torch.cat([x, x], -1)[..., :24], torch.cat([weight, weight])[:40]
    found = linear(x, weight, b)
    torch.testing.assert_close(found.double(), truth, atol=1e-5, rtol=1e-5)
    assert onednn == [shape]


def test_a_row_is_rounded_alike_whatever_stands_beside_it(onednn: list[tuple[int, ...]]) -> None:
    x, weight = torch.randn(300, 64), torch.randn(96, 64)
    whole = linear(x, weight)
    for rows in (4, 5, 16, 100):
        assert torch.equal(linear(x[:rows], weight), whole[:rows])
    assert len(onednn) == 5


@pytest.mark.parametrize("bias", [True, False])
def test_gradients(bias: bool, onednn: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the formulas, in double precision by finite differences; of the operation, as torch's own."""
    parts = [drawn(2, 4, 6), drawn(5, 6), drawn(5) if bias else None]
    parts = [None if part is None else part.requires_grad_() for part in parts]
    mine = [None if part is None else part.detach().float().requires_grad_() for part in parts]
    found, truth = linear(*mine), functional.linear(*parts)
    weights = drawn(*truth.shape)
    (found * weights.float()).sum().backward()
    (truth * weights).sum().backward()
    for one, other in zip(mine, parts, strict=True):
        if one is not None:
            torch.testing.assert_close(one.grad.double(), other.grad, atol=1e-5, rtol=1e-5)
    assert onednn == [(2, 4, 6), (2, 4, 5), (6, 8)]
    monkeypatch.setattr(products, "by_onednn", functional.linear)
    assert gradcheck(products._Linear.apply, tuple(parts))


def test_what_has_no_gradient_costs_none(onednn: list[tuple[int, ...]]) -> None:
    x, weight = torch.randn(8, 6, requires_grad=True), torch.randn(5, 6)
    linear(x, weight).sum().backward()
    assert x.grad is not None
    assert len(onednn) == 2


@pytest.mark.parametrize("why", ["few rows", "none", "double", "half", "autocast", "switched off", "another cpu"])
def test_all_else_is_left_to_torch(why: str, onednn: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn({"few rows": 3, "none": 0}.get(why, 8), 6), torch.randn(5, 6)
    dtype = {"double": torch.float64, "half": torch.bfloat16}.get(why, torch.float32)
    x, weight = x.to(dtype), weight.to(dtype)
    if why == "another cpu":
        on(monkeypatch, False)
    off = torch.backends.mkldnn.flags(enabled=False) if why == "switched off" else nullcontext()
    with torch.autocast("cpu", enabled=why == "autocast"), off:
        assert torch.equal(linear(x, weight), functional.linear(x, weight))
    assert onednn == []


@pytest.mark.parametrize(
    ("capability", "amd", "yes"), [("AVX512", True, True), ("AVX2", True, False), ("AVX512", False, False)]
)
def test_which_cpu(capability: str, amd: bool, yes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(products, "_is_amd", lambda: amd)
    for library in (torch.backends.mkl, torch.backends.mkldnn):
        monkeypatch.setattr(library, "is_available", lambda: True)
    assert products.faster_by_onednn.__wrapped__() is yes


def test_a_twin_shares_every_weight_and_leaves_the_model_as_it_is(onednn: list[tuple[int, ...]]) -> None:
    model = tiny_model("bert")
    query = model.bert.encoder.layer[0].attention.self.query
    query.forward = lambda hidden: hidden  # what an adapter does
    kinds = [type(module) for module in model.modules()]
    twin = faster(model)
    assert [type(module) for module in model.modules()] == kinds
    assert type(twin) is type(model)
    for tensors in ("parameters", "buffers"):
        mine, theirs = dict(getattr(twin, f"named_{tensors}")()), dict(getattr(model, f"named_{tensors}")())
        assert mine.keys() == theirs.keys()
        assert all(mine[name] is theirs[name] for name in mine)
    products_of = [module for module in twin.modules() if isinstance(module, nn.Linear)]
    assert [type(module) for module in products_of].count(nn.Linear) == 1
    assert type(twin.bert.encoder.layer[0].attention.self.query) is nn.Linear
    assert {type(module) for module in products_of} == {nn.Linear, Linear}
    twin.train()
    assert not model.training
    assert not any(module.training for module in model.modules())


def test_where_it_does_not_pay_there_is_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, False)
    model = tiny_model("bert")
    assert faster(model) is model


@pytest.mark.parametrize("family", [*FAMILIES, "distilbert", "deberta-v2", "mpnet"])
def test_conditionals_are_the_same(family: str, onednn: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(family)
    tokens = torch.randint(5, len(VOCAB), (6, 19))
    tokens[0, 15:] = PAD
    positions = torch.randint(0, 15, (6, 3))
    kinds = {"mask_id": MASK, "pad_id": PAD, "max_length": 64}
    fast = ModelConditionals(model, **kinds)
    found = fast(tokens, positions)
    assert onednn
    with torch.no_grad():
        for parameter in model.parameters():  # a twin sees what becomes of the model
            parameter.mul_(0.9)
    after = fast(tokens, positions)
    assert not torch.allclose(after, found, atol=1e-3)
    on(monkeypatch, False)
    torch.testing.assert_close(after, ModelConditionals(model, **kinds)(tokens, positions), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_chains_in_order_are_the_same(
    family: str, onednn: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(family)
    tokens = torch.randint(5, len(VOCAB), (6, 19))
    given = torch.arange(19).expand(6, 19) < 4
    order = torch.stack([4 + torch.randperm(15) for _ in range(6)])
    kinds = {"mask_id": MASK, "pad_id": PAD, "max_length": 64, "untrained": True}
    found = ModelOrdered(model, **kinds).chain(tokens, given, order)
    assert onednn
    on(monkeypatch, False)
    torch.testing.assert_close(found, ModelOrdered(model, **kinds).chain(tokens, given, order), atol=1e-4, rtol=1e-5)


def test_a_twin_learns_for_its_model(onednn: list[tuple[int, ...]]) -> None:
    model = tiny_model("bert")
    plain, twin = copy.deepcopy(model).train(), faster(model).train()
    tokens = torch.randint(5, len(VOCAB), (4, 12))
    for one in (plain, twin):
        for module in one.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        one(input_ids=tokens, labels=tokens).loss.backward()
    assert onednn
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-5, rtol=1e-4)
