"""XLNet along an order in one pass: a distribution over texts for every order, term by term what single asks give."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import XLNetConfig, XLNetLMHeadModel
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.studies.causal import is_causal
from anyorder.studies.permutation import is_permutation, permutation_terms
from anyorder.training.recipe import ModelRecipe, ObjectiveRecipe, TokenizerRecipe, from_dict

V, N = 4, 4


@pytest.fixture(scope="module")
def toy() -> XLNetLMHeadModel:
    """An XLNet over four words with strong opinions."""
    sizes = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32, "dropout": 0.0, "initializer_range": 0.5}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return XLNetLMHeadModel(XLNetConfig(vocab_size=V, **sizes)).eval()


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
def test_every_order_gives_a_distribution_over_all_texts(toy: XLNetLMHeadModel, order: tuple[int, ...]) -> None:
    """Σ_x Π_t q(x_σt | x_σ<t) = 1 over all 4³ texts behind a given first word, by enumeration."""
    texts = torch.tensor([[0, *rest] for rest in itertools.product(range(V), repeat=N - 1)])
    free = (torch.arange(N) > 0).expand(texts.shape)
    rank = torch.zeros_like(texts)
    for place, i in enumerate(order):
        rank[:, i] = place
    log_p = permutation_terms(toy, texts, free, rank, None).sum(1)
    assert float(log_p.exp().sum()) == pytest.approx(1, abs=1e-5)
    assert float(log_p.exp().std()) > 1e-3  # and not the uniform one


def test_terms_equal_one_question_at_a_time(toy: XLNetLMHeadModel) -> None:
    """Each term alone, from transformers with a mask written out by hand; later words replaced by others."""
    tokens, rank = torch.tensor([[0, 3, 1, 2]]), torch.tensor([[0, 2, 0, 1]])
    free = torch.tensor([[False, True, True, True]])
    terms = permutation_terms(toy, tokens, free, rank, None)
    for i in (1, 2, 3):
        earlier = [j for j in range(N) if j == 0 or (j != i and rank[0, j] < rank[0, i])]
        asked = tokens.clone()
        asked[0, [j for j in range(N) if j not in earlier]] = 0
        mask = torch.ones(1, N, N)
        for one in range(N):  # a word sees what is given and what comes before it
            mask[0, one, [j for j in earlier if j == 0 or rank[0, j] < rank[0, one]]] = 0
        mapping = torch.nn.functional.one_hot(torch.tensor([[i]]), N).float()
        with torch.no_grad():
            logits = toy(input_ids=asked, perm_mask=mask, target_mapping=mapping).logits[0, 0]
        assert float(terms[0, i]) == pytest.approx(float(logits.log_softmax(-1)[tokens[0, i]]), abs=1e-5)
    assert float(terms[0, 0]) == 0


def test_padding_changes_nothing(toy: XLNetLMHeadModel) -> None:
    tokens = torch.tensor([[1, 3, 1, 2]])
    free = torch.tensor([[False, True, True, True]])
    longer = torch.nn.functional.pad(tokens, (0, 2), value=0)
    more = torch.nn.functional.pad(free, (0, 2))
    rank = torch.tensor([[0, 2, 0, 1]])
    torch.testing.assert_close(
        permutation_terms(toy, longer, more, torch.nn.functional.pad(rank, (0, 2)), 0)[:, :4],
        permutation_terms(toy, tokens, free, rank, 0), atol=1e-5, rtol=0,
    )  # fmt: skip


def test_evaluate_perplexity_of_a_trained_xlnet(
    trained: dict[str, Path], stories: dict[str, Path], tmp_path: Path
) -> None:
    """Tables 2 and 3: XLNet in both orders, one pass each, beside a masked model."""
    from anyorder.training.trainer import train

    base = from_dict(json.loads((trained["u-pmlm-a"] / "recipe.json").read_text()))
    recipe = replace(
        base, output=str(tmp_path / "xlnet"), tokenizer=TokenizerRecipe(path=str(trained["u-pmlm-a"])),
        model=ModelRecipe(kind="xlnet", hidden_size=32, layers=2, heads=2, intermediate=48),
        objective=ObjectiveRecipe(name="permutation"), optim=replace(base.optim, steps=12),
    )  # fmt: skip
    path = train(recipe, quiet=True)
    assert is_permutation(path)
    assert not is_causal(path)
    assert not is_permutation(trained["gpt"])
    args = ["evaluate", "perplexity", "--models", f"xlnet={path}", "--test", str(stories["test"]), "--length", "32"]
    result = CliRunner().invoke(app, [*args, "--limit", "6", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [(r["order"], r["method"], r["passes"]) for r in rows] == [
        ("sequential", "permutation", 6), ("random", "permutation", 6)
    ]  # fmt: skip
    assert all(1 < r["perplexity"] < math.inf for r in rows)
    assert rows[0]["perplexity"] != rows[1]["perplexity"]
