"""Parallel decoding: K steps for n blanks, several committed at once as if they were independent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from anyorder.errors import AnyorderError, choose
from anyorder.metrics.schedules import FORMULAS
from anyorder.samplers.draw import (
    Draw,
    Warper,
    ask,
    draw_at,
    draw_from,
    first_among,
    masked_draw,
    pack,
    place,
    uniforms,
)
from anyorder.samplers.orders import UNCERTAINTY
from anyorder.types import Conditionals, Info, Randomness, Sampler

COMMITS = (*UNCERTAINTY, "random")
Schedule = Callable[[int], Sequence[int]]  # blanks of a row -> how many each step reveals


class PairDraw(Protocol):
    """Draws the positions one step commits together, in place of the product of their conditionals."""

    def __call__(self, tokens: Tensor, positions: Tensor, log_q: Tensor, u: Tensor) -> tuple[Tensor, int]:
        """Tokens for the committed positions.

        Args:
            tokens: [b, N] with ``mask_id`` at everything still open, the committed positions included.
            positions: [b, K] the positions to draw, -1 for none.
            log_q: [b, K, V] their conditionals given ``tokens``, not warped.
            u: [b, K] a uniform each; the only randomness allowed, so that the seed still fixes the text.

        Returns:
            The tokens [b, K], and the further rows sent through the model.
        """
        ...


class ParallelState(NamedTuple):
    """The texts so far, their open blanks, and how far each row is in its schedule."""

    tokens: Tensor  # [B, N], mask_id at the open blanks
    open: Tensor  # [B, N] bool
    targets: Tensor  # [B, K] blanks that are to be filled by the end of each step
    step: Tensor  # [B] steps made

    @property
    def done(self) -> Tensor:
        """[B] rows without an open blank."""
        return ~self.open.any(1)


def parallel(
    conditionals: Conditionals,
    *,
    steps: int | None = None,
    commit: str = "confidence",
    schedule: str | Schedule = "linear",
    epsilon: float | None = None,
    warper: Warper | None = None,
    pair_draw: PairDraw | None = None,
) -> Sampler[ParallelState]:
    """At each step commit a set S of open blanks at once, from the product Π_{i∈S} q(x_i | committed).

    The product ignores the dependence inside S, so the text is biased even with exact conditionals; the bias
    vanishes as |S| → 1, that is as steps → n. The positions are ranked by the conditionals alone, not by tokens
    drawn from them, which would leave a bias even at |S| = 1.

    Args:
        conditionals: The model.
        steps: K. A row of n < K blanks takes n steps, one blank each. None (with ``epsilon``): as many as it takes.
        commit: Which blanks first: ``confidence`` (largest max q), ``margin`` (largest gap between the two best),
            ``entropy`` (least entropy), or ``random`` (which needs the head only at the blanks it commits).
        schedule: How many in each step: ``linear``, ``cosine``, or a function from a row's number of blanks to the
            sizes of at most K blocks (:mod:`anyorder.metrics.schedules` finds the cheapest).
        epsilon: The entropy bound. Blanks are taken in the order of ``commit`` while the sum of their entropies
            stays under ε nats (always at least one, and never fewer than ``steps`` demands). The sum of entropies
            bounds the KL divergence of the product from the joint of S.
        warper: Temperature, top-k and the like.
        pair_draw: Draws the committed set in place of the product, e.g. pairs from their Arnold–Gokhale joint
            (:func:`anyorder.joints.pair_draw.pair_draw`); takes no ``warper``.

    Returns:
        A sampler that ends when every blank is filled.
    """
    if steps is None and epsilon is None:
        raise AnyorderError(
            "parallel decoding needs steps or epsilon: say how many steps to take, or the entropy bound"
        )
    check(steps, commit, schedule if isinstance(schedule, str) else "linear", epsilon)
    sizes = (lambda n: FORMULAS[schedule](n, steps or 1)) if isinstance(schedule, str) else schedule
    if pair_draw is not None and warper is not None:
        raise AnyorderError("pairs are drawn from the model's own joint: leave out temperature, top-k and the like")

    def init(tokens: Tensor, free: Tensor) -> ParallelState:
        blank = tokens.masked_fill(free, conditionals.mask_id)
        blanks = free.sum(1)
        return ParallelState(blank, free.clone(), _targets(blanks, sizes, steps or 0), torch.zeros_like(blanks))

    def share(state: ParallelState) -> Tensor:
        """[B] blanks the schedule wants committed in this step, at least one."""
        left = state.open.sum(1)
        if steps is None:
            return left.clamp(max=1)
        target = state.targets.gather(1, state.step.clamp(max=steps - 1)[:, None])[:, 0]
        filled = state.targets[:, -1] - left  # an entropy bound may have filled more than were due
        return torch.minimum((target - filled).clamp(min=1), left)

    def step(generator: Randomness, state: ParallelState) -> tuple[ParallelState, Info]:
        tokens, still_open, targets, made = state
        keys, u = uniforms(generator, tokens, 2)
        count = share(state)
        if commit == "random" and epsilon is None and pair_draw is None:
            positions = first_among(keys, still_open, count)
            draw, rows_sent = draw_at(conditionals, tokens, positions, u, warper)
        else:
            positions, draw, rows_sent = _survey(tokens, still_open, count, keys, u)
        tokens = place(tokens, positions, draw.tokens)
        still_open = place(still_open, positions, 0)
        return ParallelState(tokens, still_open, targets, made + 1), Info(positions, *draw, rows_sent)

    def _survey(tokens: Tensor, still_open: Tensor, count: Tensor, keys: Tensor, u: Tensor) -> tuple[Tensor, Draw, int]:
        """Look at every open blank, rank, and draw at those that are committed."""
        asked = pack(still_open)  # [B, K]
        extra = 0

        def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
            nonlocal extra
            where = asked[rows]
            index = where.clamp(min=0)
            rank = keys[rows].gather(1, index) if commit == "random" else UNCERTAINTY[commit](log_q)
            rank, slot = rank.masked_fill(where < 0, torch.inf).sort(dim=1, stable=True)
            wanted = count[rows]
            if epsilon is not None:
                entropy = UNCERTAINTY["entropy"](log_q).gather(1, slot)
                wanted = torch.maximum(wanted, (entropy.cumsum(1) <= epsilon).sum(1))
            wanted = torch.minimum(wanted, torch.isfinite(rank).sum(1))
            width = max(1, int(wanted.max())) if len(rows) else 1
            slot = slot[:, :width]
            taken = torch.arange(width, device=slot.device) < wanted[:, None]
            position = torch.where(taken, where.gather(1, slot), -1)
            chosen = log_q.gather(1, slot[..., None].expand(-1, -1, log_q.shape[-1]))  # [b, width, V]
            noise = u[rows].gather(1, position.clamp(min=0))
            draw = draw_from(chosen, noise, warper)
            if pair_draw is not None and len(rows):
                values, sent = pair_draw(tokens[rows], position, chosen, noise)
                extra += sent
                log_prob = chosen.gather(-1, values[..., None]).squeeze(-1).double()
                draw = Draw(values, log_prob, draw.entropy)
            # Chunks of rows may commit different numbers; one width lets them be put together again.
            room = (0, asked.shape[1] - width)
            pad = torch.nn.functional.pad
            return pad(position, room, value=-1), *(pad(part, room) for part in draw)

        (position, *parts), rows_sent = ask(conditionals, tokens, asked, read)
        position = torch.where(still_open.any(1, keepdim=True), position, -1)
        width = max(1, int((position >= 0).sum(1).max()))
        position = position[:, :width]
        return position, masked_draw(Draw(*(part[:, :width] for part in parts)), position), rows_sent + extra

    return Sampler(init, step)


def _targets(blanks: Tensor, sizes: Schedule, steps: int) -> Tensor:
    """[B, K] blanks of each row that are to be filled by the end of each step."""
    table = torch.zeros((len(blanks), steps), dtype=torch.long, device=blanks.device)
    for n in blanks.unique().tolist() if steps else ():
        blocks = torch.tensor(list(sizes(n)), dtype=torch.long)
        if len(blocks) > steps or int(blocks.sum()) != n or bool((blocks < 1).any()):
            raise AnyorderError(f"a schedule of {blocks.tolist()} does not share {n} blanks out over {steps} steps")
        table[blanks == n] = torch.nn.functional.pad(blocks.cumsum(0), (0, steps - len(blocks)), value=n).to(table)
    return table


def check(steps: int | None, commit: str, schedule: str, epsilon: float | None) -> None:
    """Refuse values that no step can use."""
    if steps is not None and steps < 1:
        raise AnyorderError(f"parallel decoding takes at least one step, not {steps}")
    if epsilon is not None and not epsilon >= 0:
        raise AnyorderError(f"the entropy bound must not be negative, not {epsilon}: choose 0 or more nats")
    choose(commit, COMMITS, "commit rule")
    choose(schedule, FORMULAS, "schedule")
