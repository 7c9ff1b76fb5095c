"""XLNet's masks by enumeration: a token's answer depends on what comes before it along the order, nothing else."""

import itertools

import pytest
import torch
from transformers import XLNetConfig, XLNetLMHeadModel

from anyorder.errors import AnyorderError
from anyorder.models.permutation import GIVEN, permutation_logits, permutation_mask, target_mapping

N = 4


@pytest.fixture(scope="module")
def xlnet():
    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32, "dropout": 0.0, "initializer_range": 0.5}
    return XLNetLMHeadModel(XLNetConfig(vocab_size=20, **sizes)).eval()


def ranks(given):
    """Every order of the tokens that are not given."""
    free = [i for i in range(N) if i not in given]
    for order in itertools.permutations(free):
        rank = [GIVEN] * N
        for place, i in enumerate(order):
            rank[i] = place
        yield rank


@pytest.mark.parametrize("given", [(), (0,), (1, 3)])
def test_the_mask_is_the_definition(given):
    for rank in ranks(given):
        mask = permutation_mask(torch.tensor([rank]))[0]
        for i, j in itertools.product(range(N), repeat=2):
            sees = rank[j] == GIVEN or rank[j] < rank[i]
            assert bool(mask[i, j]) != sees


@pytest.mark.parametrize("given", [(2,), (0, 3)])
def test_an_answer_depends_on_what_comes_before_and_nothing_else(xlnet, given):
    tokens = torch.tensor([[5, 6, 7, 8]])
    for rank in ranks(given):
        rank_ = torch.tensor([rank])
        targets = rank_ != GIVEN
        asked = [i for i in range(N) if i not in given]
        with torch.inference_mode():
            before = permutation_logits(xlnet, tokens, torch.ones(1, N), rank_, targets)
            for j in range(N):
                other = tokens.clone()
                other[0, j] = 11
                change = (permutation_logits(xlnet, other, torch.ones(1, N), rank_, targets) - before).abs().amax(1)
                for row, i in enumerate(asked):
                    sees = rank[j] == GIVEN or rank[j] < rank[i]
                    assert (float(change[row]) > 1e-4) == sees


def test_rows_of_different_lengths_and_targets_do_not_disturb_each_other(xlnet):
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]])
    rank = torch.tensor([[2, GIVEN, 0, 1], [0, GIVEN, GIVEN, GIVEN]])
    targets = torch.tensor([[True, False, True, True], [True, False, False, False]])
    padding = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    with torch.inference_mode():
        both = permutation_logits(xlnet, tokens, padding, rank, targets)
        one = permutation_logits(xlnet, tokens[:1], padding[:1], rank[:1], targets[:1])
        two = permutation_logits(xlnet, tokens[1:, :2], padding[1:, :2], rank[1:, :2], targets[1:, :2])
    torch.testing.assert_close(both, torch.cat([one, two]), atol=1e-5, rtol=0)


def test_a_row_without_a_given_token_is_refused(xlnet):
    rank = torch.tensor([[0, 1, GIVEN]])
    with pytest.raises(AnyorderError, match="from nothing"):
        permutation_logits(xlnet, torch.tensor([[5, 6, 0]]), torch.tensor([[1, 1, 0]]), rank, rank != GIVEN)


def test_queries_stand_at_their_targets_in_order():
    mapping, real = target_mapping(torch.tensor([[False, True, True], [True, False, False]]))
    assert mapping.argmax(-1)[real].tolist() == [1, 2, 0]
    assert real.tolist() == [[True, True], [True, False]]
    assert not mapping[~real].any()
