"""Metropolis–Hastings on the MRF energy, with the masked conditional as proposal (Goyal et al. 2022)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.samplers.draw import Draw, Warper, ask, draw_from, first_among, masked_draw, place, uniforms, warped
from anyorder.samplers.gibbs import candidates
from anyorder.samplers.singles import single_mask_log_probs
from anyorder.types import Conditionals, Info, Randomness, Sampler


class MetropolisState(NamedTuple):
    """A chain per row, with the terms of its energy."""

    tokens: Tensor  # [B, N]
    free: Tensor  # [B, N] bool
    terms: Tensor  # [B, N] float64, log q(x_t | x_-t) at the free positions, 0 elsewhere
    known: Tensor  # [B] bool: the terms belong to the tokens

    @property
    def energy(self) -> Tensor:
        """[B] E(x) = -Σ_t log q(x_t | x_-t), NaN while it has not been worked out."""
        return torch.where(self.known, -self.terms.sum(1), torch.nan)

    @property
    def done(self) -> Tensor:
        """[B] rows with nothing to resample."""
        return ~self.free.any(1)


def metropolis(conditionals: Conditionals, *, warper: Warper | None = None) -> Sampler[MetropolisState]:
    """Propose x'_i ~ q(· | x_-i) at a uniform free position i; accept with min(1, α),

    log α = E(x) - E(x') + log q(x_i | x_-i) - log q(x'_i | x_-i),   E(x) = -Σ_{t free} log q(x_t | x_-t).

    The target is the MRF joint p(x) ∝ exp(-E(x)) over the free positions (eq 2 of Torroba Hennigen & Kim 2023). It is
    *not* the joint of the conditionals, even where they are compatible (their appendix B).

    A step costs a row for the proposal and n - 1 for the energy of x': the term at i is the proposal's own, and the
    energy of x is kept. A proposal equal to x_i costs only its own row. As in Gibbs, rows that hold masks first fill
    them one per step, in random order.

    Args:
        conditionals: The model.
        warper: Shapes the *proposal* only; the acceptance corrects for it and the target stays the same. Truncating
            warpers (top-k, top-p) can leave parts of the space unreachable.

    Returns:
        A sampler without an end; ``Info.tokens`` is what was proposed, ``Info.accepted`` whether it was taken.
    """

    def init(tokens: Tensor, free: Tensor) -> MetropolisState:
        terms = torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)
        return MetropolisState(tokens.clone(), free.clone(), terms, torch.zeros_like(free[:, 0]))

    def step(generator: Randomness, state: MetropolisState) -> tuple[MetropolisState, Info]:
        tokens, free, terms, known = state
        keys, u, v = uniforms(generator, tokens, 3)
        filling = (free & (tokens == conditionals.mask_id)).any(1)
        positions = first_among(keys, candidates(tokens, free, conditionals.mask_id), 1)  # [B, 1]
        draw, here, log_ratio, rows_sent = propose(tokens, positions, u)
        proposal = place(tokens, positions, draw.tokens)

        chain = free & ~filling[:, None]
        at_i = place(torch.zeros_like(free), positions, 1)
        # Everything but i: what x and x' hold there is read off the proposal's own conditional.
        current, sent = single_mask_log_probs(conditionals, tokens, chain & ~at_i & ~known[:, None])
        rows_sent += sent
        terms = torch.where(known[:, None], terms, place(current, positions, here))
        moved = chain & (proposal != tokens).any(1, keepdim=True)
        proposed, sent = single_mask_log_probs(conditionals, proposal, moved & ~at_i)
        rows_sent += sent
        proposed = torch.where(moved, place(proposed, positions, draw.log_prob), terms)

        old, new = terms.sum(1), proposed.sum(1)
        # A start of probability zero is left at the first chance; -inf - (-inf) would be NaN.
        log_alpha = torch.where(torch.isneginf(old), torch.inf, new - old + log_ratio)
        stays = (proposal == tokens).all(1)
        accepted = (filling | stays | (v[:, 0].log() < log_alpha)) & ~state.done
        after = MetropolisState(
            tokens=torch.where(accepted[:, None], proposal, tokens),
            free=free,
            terms=torch.where((accepted & ~filling)[:, None], proposed, terms),
            known=~filling,
        )
        return after, Info(positions, *draw, rows_sent, accepted)

    def propose(tokens: Tensor, positions: Tensor, u: Tensor) -> tuple[Draw, Tensor, Tensor, int]:
        """The proposal, log q(x_i | x_-i) [B, 1], and log w(x_i) - log w(x'_i) [B] under the warped proposal w."""
        # A mask that is being filled has no probability of its own; any index serves, it is not used.
        held = tokens.gather(1, positions.clamp(min=0))
        held = torch.where(held == conditionals.mask_id, 0, held)
        u = u.gather(1, positions.clamp(min=0))

        def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
            draw = draw_from(log_q, u[rows], warper)
            log_w = torch.log_softmax(warped(log_q, warper)[:, 0].double(), -1)
            ratio = log_w.gather(1, held[rows]) - log_w.gather(1, draw.tokens)
            return *draw, log_q[:, 0].gather(1, held[rows]).double(), ratio.squeeze(1)

        masked = place(tokens, positions, conditionals.mask_id)
        (*parts, here, log_ratio), rows_sent = ask(conditionals, masked, positions, read)
        return masked_draw(Draw(*parts), positions), here, log_ratio, rows_sent

    return Sampler(init, step, ends=False)
