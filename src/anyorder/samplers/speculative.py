"""Any-order generation several tokens per pass, with the law of one at a time: speculative decoding in any order.

A model read in order answers many questions in one pass, and reads a chain of guesses in one pass. So guess the next K
tokens of the order independently, d_k ~ p_k = q(· | read), read them all, and ask on the way for what they should have
come from, q_k = q(· | read, d_<k). Then, one after another (Leviathan et al. 2023; for any order Guo & Ermon 2025),

    keep d_k with probability min(1, q_k(d_k) / p_k(d_k));
    at the first that is not kept draw from (q_k - p_k)+, normalised, and forget the rest;
    if all are kept, draw one more from q_K+1.

Given those before it each token then has the law q_k, as in :func:`anyorder.samplers.any_order`. p_1 is q_1, so the
first guess is always kept: two passes give at least two tokens. A pass over few tokens takes the time to fetch the
weights, however few they are, so that one text is written faster; many texts at once are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.any_order import AnyOrderState, any_order
from anyorder.samplers.draw import (
    Draw,
    Warper,
    draw_from,
    entropy_of,
    first_among,
    inverse_cdf,
    masked_draw,
    place,
    uniforms,
    warped,
)
from anyorder.samplers.orders import UNCERTAINTY, parse
from anyorder.types import Info, Ordered, Randomness, Sampler


def speculative(
    ordered: Ordered, *, guesses: int = 8, order: str | Sequence[int] | Tensor = "random", warper: Warper | None = None
) -> Sampler[AnyOrderState]:
    """Algorithm 1's law, ``guesses`` tokens guessed per step.

    Args:
        ordered: The model, read in order.
        guesses: K, tokens guessed at once; at least 1.
        order: As of :func:`any_order`, but not by doubt: an order that is decided as one goes has no next K.
        warper: Temperature, top-k and the like, of guesses and of what they are held to alike.

    Returns:
        A sampler whose step fills one to K + 1 blanks in every row that has one.
    """
    sigma = parse(order)
    if isinstance(sigma, str) and sigma in UNCERTAINTY:
        raise AnyorderError(f"the order {sigma!r} is decided token by token: guess ahead in another, such as random")
    if guesses < 1:
        raise AnyorderError(f"at least one token must be guessed, not {guesses}: raise guesses")

    def step(generator: Randomness, state: AnyOrderState) -> tuple[AnyOrderState, Info]:
        keys, *u = uniforms(generator, state.tokens, 4)
        # Positions that are not filled in this step are chosen anew in the next: nothing has looked at their tokens.
        ahead = first_among(keys if state.rank is None else state.rank, state.open, guesses + 1)  # [B, K + 1]
        to_guess, to_keep, to_mend = (part.gather(1, ahead.clamp(min=0)) for part in u)
        guessed = _all_but_the_last(ahead)
        log_p = ordered.ask(state.memory, guessed)
        guess = draw_from(log_p, to_guess[:, : guessed.shape[1]], warper)
        asked = ahead[:, 1:]
        if not asked.shape[1]:  # no row has more than one blank
            memory = ordered.read(state.memory, ahead, guess.tokens)
            return _filled(state, ahead, masked_draw(guess, ahead), memory, passes=1)
        memory, log_q = ordered.read_asking(state.memory, guessed, guess.tokens, asked)
        log_q = torch.cat([log_p[:, :1], log_q], 1)  # [B, K + 1, V]: what each column of `ahead` should come from
        tokens, kept = _kept_and_one(log_p, log_q, guess.tokens, guessed >= 0, (to_keep, to_mend), warper)
        column = torch.arange(ahead.shape[1], device=ahead.device)
        memory = ordered.forget(memory, torch.where(column[:-1] < kept, -1, guessed))
        one = ahead.gather(1, kept)
        memory = ordered.read(memory, one, tokens.gather(1, kept))
        positions = torch.where(column <= kept, ahead, -1)
        log_prob = log_q.gather(-1, tokens[..., None]).squeeze(-1).double()
        draw = masked_draw(Draw(tokens, log_prob, entropy_of(log_q)), positions)
        return _filled(state, positions, draw, memory, passes=2)

    return Sampler(any_order(ordered, order=sigma).init, step)


def _all_but_the_last(ahead: Tensor) -> Tensor:
    """[B, K] of ``ahead`` [B, K + 1] what is guessed: the last of a row follows what was kept, but a single one is."""
    follows = torch.nn.functional.pad(ahead[:, 1:], (0, 1), value=-1) < 0
    follows[:, 0] = False
    return torch.where(follows, -1, ahead)[:, : max(1, ahead.shape[1] - 1)]


def _kept_and_one(
    log_p: Tensor, log_q: Tensor, guess: Tensor, made: Tensor, u: tuple[Tensor, Tensor], warper: Warper | None
) -> tuple[Tensor, Tensor]:
    """Which guesses are kept, and the token that comes after them.

    Args:
        log_p: [B, K, V] what was guessed from.
        log_q: [B, K + 1, V] what should have been drawn from.
        guess: [B, K] tokens.
        made: [B, K] bool, where a guess was made.
        u: Uniforms [B, K + 1], to keep by and to draw the one by.
        warper: Of both laws.

    Returns:
        Tokens [B, K + 1], and how many were kept [B, 1]: that column holds the one; what follows means nothing.
    """
    to_keep, to_draw = u
    q = torch.softmax(warped(log_q, warper), -1)
    p = torch.softmax(warped(log_p, warper), -1) * made[..., None]  # without a guess all of q is still to be drawn
    share = (q[:, :-1].gather(-1, guess[..., None]) / p.gather(-1, guess[..., None])).squeeze(-1)
    keeps = (to_keep[:, :-1] < share) & made
    keeps[:, 0] = True  # p is q there
    kept = keeps.long().cumprod(1).sum(1, keepdim=True)  # [B, 1]
    at = kept[..., None].expand(-1, -1, q.shape[-1])
    wanted = q.gather(1, at)  # [B, 1, V]
    rest = (wanted - torch.cat([p, torch.zeros_like(q[:, :1])], 1).gather(1, at)).clamp(min=0)
    # Where p is q but for rounding, nothing may be left; then either is right.
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, wanted)
    one = inverse_cdf(rest.log(), to_draw.gather(1, kept))
    return torch.cat([guess, one], 1).scatter(1, kept, one), kept


def _filled(
    state: AnyOrderState, positions: Tensor, draw: Draw, memory: object, passes: int
) -> tuple[AnyOrderState, Info]:
    """The state with ``draw`` at ``positions``, after so many passes of every row that had a blank."""
    rows_sent = passes * int((positions >= 0).any(1).sum())
    after = AnyOrderState(
        place(state.tokens, positions, draw.tokens), place(state.open, positions, 0), state.rank, memory
    )
    return after, Info(positions, *draw, rows_sent)
