"""The any-order log-likelihood by stratified sampling of the mask count: one pass a sample instead of N.

Liao et al.'s appendix A regroups the mean of the chain rule over all orders (eq. 8) by the set M still hidden when a
token is asked. All sets of one size k are equally likely, so with N free tokens

    L(x) = E_σ Σ_t log q(x_σt | x_σ<t) = Σ_{k=1..N} f_k,    f_k = E_{|M|=k} (1/k) Σ_{i∈M} log q(x_i | x_-M).

One random mask of size k gives an unbiased sample of f_k, and a uniform k one of L/N. L(x) is a lower bound of
log E_σ p_σ(x) by Jensen's inequality, which gives the method its name.

The counts 1..N are cut into H strata. In stratum h, of N_h counts, m_h ≥ 4 masks are drawn independently, k uniform in
the stratum and M uniform given k; the estimate is Σ_h N_h · mean_h and its variance Σ_h N_h² s_h² / m_h. Fewer draws a
stratum would stratify a little better and leave too few degrees of freedom to say how well. The strata are narrow
where few tokens are hidden, because one such mask says little: it averages over k tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.memory import require_memory
from anyorder.scoring.ask import all_at_once
from anyorder.stats import widening
from anyorder.types import Conditionals

DRAWS = 4  # masks a stratum, at least
_FLOOR = 0.02  # the part of a mask's variance that does not fall with k, relative to that of one token


def bound(
    conditionals: Conditionals, tokens: Tensor, free: Tensor, generators: Sequence[torch.Generator], samples: int = 16
) -> tuple[Tensor, Tensor]:
    """Estimate L(x), the mean of :func:`anyorder.scoring.chain.chain` over all orders.

    Args:
        conditionals: The model.
        tokens: [B, N] complete texts.
        free: [B, N] bool, the positions to score.
        generators: One a text, so that a text's estimate does not depend on its neighbours.
        samples: Masks a text, each one pass; at least 2. Below 8 the standard error is a rough guess.

    Returns:
        [B, N] float64 unbiased estimates of each token's share of L, which sum to the estimate of L; and [B] the
        standard errors of the sums. ``value ± 1.96 standard errors`` covers L(x) 95 % of the time: the few degrees of
        freedom of a small sample are already counted in (Satterthwaite's approximation and Student's t).
    """
    if samples < 2:
        raise AnyorderError(f"a standard error needs at least 2 samples, not {samples}: raise --samples")
    n = free.sum(-1)  # [B] free tokens
    share = torch.zeros(tokens.shape, dtype=torch.float64)
    error = torch.zeros(len(tokens), dtype=torch.float64)
    # Texts with equally many tokens share their strata; a batch sorted by length has few such groups.
    for size in n.unique().tolist():
        if size == 0:
            continue
        texts = (n == size).nonzero()[:, 0]
        # Tokens, masks, log q and shares of every sample: 8, 1, 8 and 8 bytes for each position.
        needed = 25 * samples * len(texts) * tokens.shape[1]
        require_memory(needed, f"a bound of {samples:,} masks per text", "lower --samples")
        edges = strata(samples, size)
        width = torch.tensor(np.diff(edges))  # [H] N_h
        stratum = torch.arange(samples) * len(width) // samples  # [S]
        hidden = torch.stack([_masks(free[b], edges, stratum, generators[b]) for b in texts.tolist()])  # [T, S, N]
        rows = tokens[texts].repeat_interleave(samples, 0)
        log_q = all_at_once(conditionals, rows, hidden.flatten(0, 1)).view(hidden.shape)
        sample = log_q / hidden.sum(-1, keepdim=True)  # [T, S, N], whose sum over N is unbiased for f_k
        draws = torch.bincount(stratum)  # [H] m_h
        share[texts] = (sample * (width / draws)[stratum][:, None]).sum(1)
        error[texts] = _standard_error(sample.sum(-1), stratum, width, draws)
    return share, error


@lru_cache(maxsize=1024)
def strata(samples: int, size: int) -> tuple[int, ...]:
    """Edges 0 = e_0 < … < e_H = ``size``: stratum h holds the counts e_h + 1 … e_(h+1).

    The mean over k of ``size`` tokens varies as 1/k - 1/size; the edges share out its square root equally, which is
    the best cut for equally many draws a stratum.
    """
    parts = max(1, min(samples // DRAWS, (size + 1) // 2))
    k = np.arange(1, size + 1)
    spread = np.cumsum(np.sqrt(1 / k - 1 / size + _FLOOR))
    edges = [0]
    for h in range(1, parts):
        nearest = int(np.argmin(np.abs(spread - spread[-1] * h / parts))) + 1
        edges.append(min(max(nearest, edges[-1] + 1), size - (parts - h)))
    return (*edges, size)


def _masks(free: Tensor, edges: Sequence[int], stratum: Tensor, generator: torch.Generator) -> Tensor:
    """[S, N] random masks inside ``free`` [N], their counts uniform inside their strata."""
    low, high = torch.tensor(edges[:-1])[stratum], torch.tensor(edges[1:])[stratum]
    u = torch.rand(len(stratum), dtype=torch.float64, generator=generator)
    k = (low + 1 + (u * (high - low)).long()).minimum(high)
    rank = torch.rand(len(stratum), edges[-1], dtype=torch.float64, generator=generator).argsort(-1).argsort(-1)
    hidden = torch.zeros(len(stratum), len(free), dtype=torch.bool)
    hidden[:, free] = rank < k[:, None]
    return hidden


def _standard_error(values: Tensor, stratum: Tensor, width: Tensor, draws: Tensor) -> Tensor:
    """[T, S] samples -> [T] standard errors of Σ_h N_h · mean_h, widened for their few degrees of freedom."""
    membership = torch.nn.functional.one_hot(stratum).to(values)  # [S, H]
    mean = values @ membership / draws
    squares = (values - mean[:, stratum]) ** 2 @ membership  # [T, H]
    variance = width**2 * squares / (draws - 1) / draws  # [T, H]
    total = variance.sum(-1)
    freedom = total**2 / (variance**2 / (draws - 1)).sum(-1)  # Satterthwaite; 0/0 where nothing varies
    widen = [widening(round(f, 1)) for f in freedom.nan_to_num(nan=float(len(stratum))).tolist()]
    return total.sqrt() * torch.tensor(widen, dtype=torch.float64)
