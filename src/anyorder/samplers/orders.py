"""In which order to fill the blanks: a permutation σ of the free positions, fixed, drawn, or chosen as we go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from anyorder.errors import AnyorderError, choose
from anyorder.samplers.draw import entropy_of

# Names a user may give; "given:3,7,1" is a sixth form.
ORDERS = ("left-to-right", "right-to-left", "random", "confidence", "entropy")


def _closeness(log_q: Tensor) -> Tensor:
    best = log_q.exp().double().topk(min(2, log_q.shape[-1]), dim=-1).values  # a vocabulary of one has no runner-up
    return -(best[..., 0] - best[..., -1])


# How unsure the model is at a position, from log q [..., V] to [...]; the least unsure goes first. These read the
# conditional only, never a token drawn from it: choosing *where* by *what* was drawn would bias the text even
# with exact conditionals and one position at a time.
UNCERTAINTY: dict[str, Callable[[Tensor], Tensor]] = {
    "confidence": lambda log_q: -log_q.amax(-1).double(),  # the least surprising best guess first
    "margin": _closeness,  # the widest gap between best and second best first
    "entropy": entropy_of,  # the least entropy first
}


def parse(order: str | Sequence[int] | Tensor) -> str | Tensor:
    """An order by name, or ``"given:3,7,1"`` or a list of positions as a tensor [n] or [B, n]."""
    if isinstance(order, Tensor):
        return order.long()
    if not isinstance(order, str):
        return torch.tensor(list(order), dtype=torch.long)
    if order.startswith("given:"):
        try:
            return torch.tensor([int(part) for part in order[len("given:") :].split(",")], dtype=torch.long)
        except ValueError:
            raise AnyorderError(f"cannot read the order {order!r}: write given:3,7,1 with whole numbers") from None
    return choose(order, ORDERS, "order", also=" or given:3,7,1")


def fixed_rank(order: str | Tensor, free: Tensor) -> Tensor | None:
    """When each position's turn comes, [B, N] float64, or None for an order that is only known as we go.

    Raises:
        AnyorderError: A given order repeats or omits a free position, or names one that is not free.
    """
    rows, length = free.shape
    place = torch.arange(length, dtype=torch.float64, device=free.device).expand(rows, length)
    if isinstance(order, Tensor):
        return _given(order.to(free.device).expand(rows, order.shape[-1]), free)
    if order == "left-to-right":
        return place
    if order == "right-to-left":
        return -place
    return None


def _given(order: Tensor, free: Tensor) -> Tensor:
    """Rank of each position in ``order`` [B, n]; rows shorter than n end in -1."""
    rows, length = free.shape
    used = order >= 0
    _check((order >= length).any(1) | (order < -1).any(1), "names a position outside the text", order)
    index = torch.where(used, order, length)
    count = torch.zeros((rows, length + 1), dtype=torch.long, device=free.device)
    count = count.scatter_add_(1, index, used.long())[:, :length]
    _check((count > 1).any(1), "repeats a position", order)
    _check(((count > 0) & ~free).any(1), "names a position that is not free", order)
    _check((free & (count == 0)).any(1), "omits a free position", order)
    turn = torch.arange(order.shape[1], dtype=torch.float64, device=free.device).expand(order.shape)
    rank = torch.full((rows, length + 1), torch.inf, dtype=torch.float64, device=free.device)
    return rank.scatter_(1, index, turn)[:, :length]


def _check(bad: Tensor, what: str, order: Tensor) -> None:
    if bad.any():
        row = order[int(bad.nonzero()[0])].tolist()
        shown = ",".join(map(str, row[:8])) + (",…" if len(row) > 8 else "")
        raise AnyorderError(f"the order {shown} {what}: list every free position exactly once")
