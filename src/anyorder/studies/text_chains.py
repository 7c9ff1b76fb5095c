"""Gibbs chains on a real text: do they leave it, do they agree, how many independent draws are they worth?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import fdtri
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.gibbs import gibbs
from anyorder.samplers.singles import single_mask_log_probs
from anyorder.stats import Record
from anyorder.types import Conditionals

Array = NDArray[np.float64]

_FEWEST = 8  # sweeps per chain behind an effective sample size or R-hat: four in each half of a chain
_COARSE = 1.1  # where chance alone brings R-hat this far, agreement cannot be told from mild disagreement


@dataclass(frozen=True)
class ChainReport(Record):
    """Several chains over one text: half of them begin at the text, half at masks."""

    text: int
    block: int
    mode: str
    energy: list[list[float]]  # [chains][sweeps] -Σ_t log q(x_t | x_-t) / n, nats per token
    overlap: list[float]  # [sweeps + 1] share of tokens as in the text, chains that began there
    baseline: float  # the same share among chains that began at masks, over the second half
    autocorrelation: list[float]  # of the energy by lag in sweeps, second half, mean over chains
    effective: float  # effective sample size of the energy, second half, all chains: at most `draws`; see `_FEWEST`
    draws: int  # sweeps it was computed from, all chains
    r_hat: float
    r_hat_chance: float  # R-hat that independent draws, as few as these, exceed once in twenty times

    @property
    def verdict(self) -> str:
        """What R-hat says of the chains, as far as so few draws can tell."""
        if math.isnan(self.r_hat):
            return "chains do not move, or too briefly to tell whether they agree"
        measured = f"R-hat {self.r_hat:.2f}; up to {self.r_hat_chance:.2f} is chance"
        if self.r_hat > self.r_hat_chance:
            return f"chains do not agree yet ({measured})"
        if self.r_hat_chance > _COARSE:
            return f"no disagreement of chains shows, but so few sweeps would show only a large one ({measured})"
        return f"chains agree ({measured})"

    @property
    def escape(self) -> int | None:
        """The first sweep after which the text is half forgotten: overlap half-way to the baseline; None if never."""
        half = (1.0 + self.baseline) / 2
        return next((s for s, share in enumerate(self.overlap) if share <= half), None)


def text_chain(
    conditionals: Conditionals,
    text: int,
    tokens: Tensor,
    free: Tensor,
    *,
    block: int,
    chains: int,
    sweeps: int,
    seed: int,
) -> Iterator[ChainReport | None]:
    """Run Gibbs over one text, tokens [N], free [N]: None after every sweep, the report at the end.

    A sweep resamples n positions, in n / block steps of ``block`` positions in parallel.
    """
    stats = _arviz()
    n = int(free.sum())
    starts = tokens.repeat(chains, 1)
    from_masks = torch.arange(chains) >= chains // 2
    starts[from_masks] = starts[from_masks].masked_fill(free, conditionals.mask_id)
    where = free.repeat(chains, 1)
    sampler = gibbs(conditionals, block=block)
    generator = torch.Generator().manual_seed(seed)
    state = sampler.init(starts, where)
    same = [(state.tokens == tokens)[:, free].double().mean(1)]
    energy = []
    for _ in range(sweeps):
        for _ in range(math.ceil(n / block)):
            state, _ = sampler.step(generator, state)
        terms, _ = single_mask_log_probs(conditionals, state.tokens, where)
        energy.append(-terms.sum(1) / n)
        same.append((state.tokens == tokens)[:, free].double().mean(1))
        yield None
    e: Array = torch.stack(energy, 1).numpy()  # [chains, sweeps]
    overlap: Array = torch.stack(same, 1).numpy()
    late = e[:, sweeps // 2 :]
    moving = late.std() > 1e-9 and late.shape[1] >= _FEWEST  # arviz divides by the variance
    correlation = stats.autocorr(late, axis=-1).mean(0) if moving else np.full(late.shape[1], np.nan)
    yield ChainReport(
        text=text,
        block=block,
        mode="parallel",
        energy=e.tolist(),
        overlap=overlap[: chains // 2].mean(0).tolist(),
        baseline=float(overlap[chains // 2 :, sweeps // 2 :].mean()),
        autocorrelation=correlation.tolist(),
        effective=min(float(stats.ess(late, chain_axis=0, draw_axis=1)), late.size) if moving else math.nan,
        draws=late.size,
        r_hat=float(stats.rhat(late, chain_axis=0, draw_axis=1)) if moving else math.nan,
        r_hat_chance=r_hat_chance(*late.shape) if moving else math.nan,
    )


def r_hat_chance(chains: int, draws: int) -> float:
    """The split R-hat that ``chains`` of ``draws`` independent draws exceed about once in twenty times.

    Split in halves there are m = 2 · chains of n = draws / 2; R-hat² = (n - 1)/n + F/n, where F, the variance between
    over that within, has Fisher's distribution with m - 1 and m(n - 1) degrees of freedom. arviz takes the larger of
    two such numbers (of the ranks, and of their distance to the median), hence half of 5 % for each.
    """
    m, n = 2 * chains, draws // 2
    return math.sqrt((n - 1 + float(fdtri(m - 1, m * (n - 1), 0.975))) / n)


def _arviz() -> Any:
    """arviz-stats' functions on plain arrays."""
    try:
        from arviz_stats.base import array_stats
    except ImportError:
        raise AnyorderError("chain diagnostics need arviz-stats: pip install 'anyorder[report]'") from None
    return array_stats
