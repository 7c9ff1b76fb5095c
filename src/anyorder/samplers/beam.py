"""Beam search: the n best ways to fill all blanks of a text jointly, over an order chosen per state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.draw import ask, first, pack, place
from anyorder.samplers.orders import UNCERTAINTY, fixed_rank, parse
from anyorder.types import Conditionals


class Beam(NamedTuple):
    """The completions found, best first."""

    tokens: Tensor  # [H, N]
    log_prob: Tensor  # [H] float64, Σ_t log q(x_σ(t) | x_σ(<t)) along the order σ that found it
    rows: int  # sent through the model


def beam(
    conditionals: Conditionals,
    tokens: Tensor,
    free: Tensor,
    *,
    width: int = 16,
    order: str | Sequence[int] | Tensor = "confidence",
    branch: int = 1,
    allowed: Tensor | None = None,
    generator: torch.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Beam:
    """The ``width`` most probable completions of one text, as far as a beam of that width can see.

    A hypothesis is the text with some of its blanks filled; every step fills one more blank in every hypothesis,
    all of them in one batch, and keeps the best by Σ log q so far. Each hypothesis chooses *its own* next blank
    from its own conditionals (``confidence``: where the model is most certain), since what is certain depends on
    what has been filled. With exact conditionals the order does not change a completion's probability, and a beam
    wide enough to prune nothing returns the exact top ``width``.

    Args:
        conditionals: The model.
        tokens: [N] the text; what stands at free positions is ignored.
        free: [N] bool, the blanks.
        width: Hypotheses kept.
        order: As in :func:`anyorder.samplers.any_order`; ``random`` draws one order for all and needs ``generator``.
        branch: Blanks that each hypothesis tries next, for orders decided as we go. More than one hedges the
            choice of order; a completion reached along several orders is kept once, with its best value.
        allowed: [N, V] bool, the tokens each position may take; all others are passed over, and log q stays the
            model's own (not normalised over what is left), so that it agrees with fill-mask.
        generator: For ``random``.
        progress: Called with (blanks filled, blanks) after every step.

    Returns:
        At most ``width`` completions, fewer if fewer are possible.
    """
    if width < 1 or branch < 1:
        raise AnyorderError(f"a beam needs a width and a branch of at least 1, not {width} and {branch}")
    sigma = parse(order)
    rank = fixed_rank(sigma, free[None])  # [1, N], or None
    if isinstance(sigma, str) and sigma == "random":
        if generator is None:
            raise AnyorderError("a random order needs a generator: pass torch.Generator().manual_seed(0)")
        rank = torch.rand((1, len(free)), generator=generator, dtype=torch.float64)

    texts = tokens.masked_fill(free, conditionals.mask_id)[None]  # [H, N]
    still_open = free[None]  # [H, N]
    log_prob = torch.zeros(1, dtype=torch.float64)  # [H]
    blanks, rows_sent = int(free.sum()), 0
    for filled in range(1, blanks + 1):
        if rank is not None:
            asked, tried = first(torch.where(still_open, rank, torch.inf), torch.ones(len(texts), dtype=torch.long)), 1
        else:
            asked = pack(still_open)  # [H, K]: every hypothesis has the same number of open blanks
            tried = min(branch, asked.shape[1])
        with torch.inference_mode():
            (position, token, value), sent = ask(
                conditionals, texts, asked, _reader(sigma, asked, tried, width, allowed)
            )
        rows_sent += sent
        # [H, C] candidates of every hypothesis; the best `width` over all of them.
        total = (log_prob[:, None] + value).flatten()
        parent = torch.arange(len(texts)).repeat_interleave(value.shape[1])
        # A text may come from as many hypotheses as it has filled blanks, so only distinct ones may be counted.
        best = total.topk(min(len(total), width) if branch == 1 else len(total)).indices
        best = best[total[best] > -torch.inf]
        at = position.flatten()[best, None]
        texts = place(texts[parent[best]], at, token.flatten()[best, None])
        still_open = place(still_open[parent[best]], at, 0)
        log_prob = total[best]
        if branch > 1:
            texts, still_open, log_prob = _once(texts, still_open, log_prob, width)
        if progress is not None:
            progress(filled, blanks)
    return Beam(texts, log_prob, rows_sent)


def _reader(
    sigma: str | Tensor, asked: Tensor, tried: int, width: int, allowed: Tensor | None
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """What to keep of log q [h, K, V]: the best tokens at the ``tried`` blanks each hypothesis is most certain of."""

    def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        where = asked[rows]  # [h, K]
        if allowed is not None:
            log_q = log_q.masked_fill(~allowed.to(log_q.device)[where.clamp(min=0)], -torch.inf)
        if isinstance(sigma, str) and sigma in UNCERTAINTY and where.shape[1] > 1:
            doubt = UNCERTAINTY[sigma](log_q).masked_fill(where < 0, torch.inf)
            slot = doubt.topk(tried, dim=1, largest=False).indices  # [h, J]
            where = where.gather(1, slot)
            log_q = log_q.gather(1, slot[..., None].expand(-1, -1, log_q.shape[-1]))
        value, token = log_q.double().topk(min(width, log_q.shape[-1]), dim=-1)  # [h, J, W]
        position = where[..., None].expand_as(token)
        return position.flatten(1), token.flatten(1), value.flatten(1)

    return read


def _once(texts: Tensor, still_open: Tensor, log_prob: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each distinct text once, with its best value; the first ``width`` of them."""
    _, group = torch.unique(texts, dim=0, return_inverse=True)
    # Rows come best first, so the least row number of a group is its best.
    row = torch.arange(len(texts))
    firsts = torch.full((int(group.max()) + 1,), len(texts)).scatter_reduce(0, group, row, "amin").sort().values[:width]
    return texts[firsts], still_open[firsts], log_prob[firsts]
