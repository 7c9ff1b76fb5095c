"""Equations 2, 6 and 8 by enumeration on exact tables, and normalisation over whole steps."""

import itertools
import math

import pytest
import torch

from anyorder.conditionals import random_joint
from anyorder.errors import AnyorderError
from anyorder.masking import Beta, Fixed, FixedCount, RootCount, Uniform, UniformCount, log_count
from anyorder.training.objective import check_reach, normaliser, row_means, row_weights, weighted_sum

G = torch.Generator


class Incompatible:
    """Conditionals of no joint at all: equation 8's equivalence must not need a joint."""

    vocab_size, mask_id, pad_id = 3, 3, None

    def __call__(self, tokens, positions):
        rows = []
        for row, asked in zip(tokens.tolist(), positions.tolist(), strict=True):
            per = []
            for t in asked:
                g = torch.Generator().manual_seed(hash((tuple(row), t)) % 2**31)
                per.append(torch.randn(3, generator=g, dtype=torch.float64).log_softmax(-1))
            rows.append(torch.stack(per))
        return torch.stack(rows)


def masks_of(n):
    return torch.tensor(list(itertools.product([False, True], repeat=n)))


def token_losses(conditionals, x, masked):
    """-log p(x_t | X_-Π) at the masked positions of every mask, in row-major order."""
    n = len(x)
    tokens = torch.where(masked, conditionals.mask_id, x)
    log_q = conditionals(tokens, torch.arange(n).expand(len(masked), n))
    return -log_q.gather(-1, x.expand(len(masked), n)[..., None])[..., 0][masked]


def aplm(conditionals, x):
    """Equation 8, summed over all permutations."""
    n = len(x)
    observed = ~masks_of(n)
    tokens = torch.where(observed, x, conditionals.mask_id)
    log_q = conditionals(tokens, torch.arange(n).expand(len(tokens), n))
    log_p = {tuple(o.nonzero()[:, 0].tolist()): q[range(n), x].tolist() for o, q in zip(observed, log_q, strict=True)}
    total = 0.0
    for order in itertools.permutations(range(n)):
        total += sum(log_p[tuple(sorted(order[:i]))][t] for i, t in enumerate(order))
    return total / math.factorial(n)


@pytest.mark.parametrize("n", [2, 4, 6])
@pytest.mark.parametrize("kind", ["table", "incompatible"])
def test_pmlm_is_aplm(n, kind):
    conditionals = random_joint(G().manual_seed(n), 3, n) if kind == "table" else Incompatible()
    x = torch.randint(3, (n,), generator=G().manual_seed(1))
    masked = masks_of(n)
    losses = token_losses(conditionals, x, masked)
    alpha = Uniform().log_alpha(masked.sum(1), n).exp()
    weights = row_weights(masked, torch.ones_like(masked), "sequence", Uniform())
    per_mask = torch.stack(
        [
            weighted_sum(losses[masked.nonzero()[:, 0] == b], masked[b : b + 1], weights[b : b + 1])
            for b in range(len(masked))
        ]
    )
    pmlm = -(alpha * per_mask).sum().item()  # equation 6
    assert (n + 1) * pmlm == pytest.approx(aplm(conditionals, x), abs=1e-9)


@pytest.mark.parametrize("prior", [Uniform(), UniformCount(), RootCount(), Beta(0.7, 1.2)], ids=repr)
def test_the_bound_is_equation_8_per_token_whatever_law_draws_the_masks(prior):
    n = 4
    table = random_joint(G().manual_seed(3), 3, n)
    x = torch.tensor([0, 2, 1, 1])
    masked = masks_of(n)
    losses = token_losses(table, x, masked)
    p = prior.log_alpha(masked.sum(1), n).exp()
    assert p.sum().item() == pytest.approx(1)
    maskable = torch.ones_like(masked)
    weights = row_weights(masked, maskable, "bound", prior)
    value = (p * weights).double()[masked.nonzero()[:, 0]] @ losses / normaliser(masked[:1], maskable[:1], "bound")
    assert value.item() == pytest.approx(-aplm(table, x) / n, abs=1e-9)
    # on a real joint every order gives the same: the true log-probability
    assert -value.item() * n == pytest.approx(table.log_prob(x[None]).item(), abs=1e-9)


def test_no_law_of_counts_estimates_a_sum_with_less_variance_than_root_count():
    """Where the mean over K masked tokens has the variance 1 / K: Σ_K P(K) w(K)² / K, w(K) = 1 / P(K)."""
    n = 64
    k = torch.arange(1, n + 1, dtype=torch.float64)

    def variance(prior):
        return (1 / log_count(prior, n)[1:].exp() / k).sum().item()

    least = variance(RootCount())
    assert least == pytest.approx(k.rsqrt().sum().item() ** 2)  # Cauchy-Schwarz's bound
    assert all(least < variance(other) for other in (UniformCount(), Beta(0.5, 1), Beta(0.8, 1), Beta(1, 1.5)))


def test_in_order_the_tokens_of_all_texts_weigh_alike():
    """Under ``bound``: N / E[K], so that the mean over counts is -log p(rest | given), scaled to the text's length."""
    masked = torch.tensor([[True, False, False, False], [True] * 4, [False, True, False, False]])
    maskable = torch.ones_like(masked)
    in_order = torch.tensor([True, True, False])
    weights = row_weights(masked, maskable, "bound", UniformCount(), in_order, UniformCount())
    assert weights.tolist() == pytest.approx([4 / 2.5, 4 / 2.5, 4.0])
    whole = row_weights(masked[1:2], maskable[1:2], "bound", Uniform(), in_order[1:2], FixedCount(9))
    assert whole.tolist() == [1.0]  # a text whose every token is predicted


def test_a_prior_that_misses_counts_is_refused():
    for prior, name in [(Fixed(0.15), "fixed:0.15"), (FixedCount(3), "count:3")]:
        with pytest.raises(AnyorderError, match=f"masks of every size, which {name} does not draw: choose"):
            check_reach(prior, name)
    for prior in (Uniform(), UniformCount(), RootCount()):
        check_reach(prior, "")


def test_weights_by_hand():
    masked = torch.tensor([[True, True, False, False], [False, False, True, False], [False] * 4])
    maskable = torch.tensor([[True] * 4, [True, True, True, False], [True] * 4])
    losses = torch.tensor([1.0, 2.0, 5.0])
    expected = {"sequence": (1.5 + 5.0) / 3, "token": 8.0 / 3, "bound": (4 * 1.5 + 3 * 5.0) / 11}
    for normalise, value in expected.items():
        z = normaliser(masked, maskable, normalise)
        weights = row_weights(masked, maskable, normalise, UniformCount())
        assert (weighted_sum(losses, masked, weights) / z).item() == pytest.approx(value)
    assert row_means(losses, masked).tolist() == [1.5, 5.0]
