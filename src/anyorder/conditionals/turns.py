"""What may be given, read, asked and ordered: one sentence for each mistake."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.models.ordered import placed


def check_given(tokens: Tensor, given: Tensor) -> None:
    """Texts and what of them is given: [B, N] both, ``given`` boolean."""
    if tokens.ndim != 2 or tokens.shape != given.shape or given.dtype != torch.bool:
        raise AnyorderError(
            f"tokens and given must be [B, N] of one shape and given boolean, not {list(tokens.shape)} and "
            f"{list(given.shape)} {given.dtype}: build given with torch.bool"
        )


def check_read(known: Tensor, positions: Tensor) -> None:
    """Positions [B, K] to be read must be new."""
    _refuse(known, positions, "is read", "read each position once, and none that was given")


def check_ask(known: Tensor, positions: Tensor) -> None:
    """Positions [B, K] to be asked must be open."""
    _refuse(known, positions, "is asked", "ask once about positions that were neither given nor read, and -1 elsewhere")


def check_asked_on_the_way(known: Tensor, positions: Tensor, asked: Tensor) -> None:
    """What is ``asked`` [B, K] after each column of ``positions`` [B, K] is read must still be open then."""
    if asked.shape != positions.shape:
        raise AnyorderError(
            f"one question goes with each token: asked must be {list(positions.shape)}, not {list(asked.shape)}"
        )
    check_ask(known, asked)
    b, k = positions.shape
    column = torch.arange(k, device=known.device).expand(b, k)
    turn = placed(torch.full_like(known, k, dtype=torch.long), positions, column)  # when each is read; k: not here
    late = (turn.gather(1, asked.clamp(min=0)) <= column) & (asked >= 0)
    if bool(late.any()):
        raise AnyorderError(f"position {int(asked[late][0])} is asked after it was read: ask about what comes later")


def check_order(known: Tensor, order: Tensor) -> None:
    """An order [B, K] names every position at most once, and none that is ``known`` [B, N] from the start."""
    _refuse(known, order, "stands in the order", "list each position to predict once")


def _refuse(known: Tensor, positions: Tensor, doing: str, remedy: str) -> None:
    rows, n = known.shape
    if positions.ndim != 2 or len(positions) != rows:
        raise AnyorderError(f"positions must be [{rows}, K], a row for each text, not {list(positions.shape)}")
    if not positions.numel():
        return
    low, high = (int(end) for end in positions.aminmax())
    if low < -1 or high >= n:
        outside = high if high >= n else low
        raise AnyorderError(f"position {outside} {doing} in rows of {n} tokens: positions count from 0, -1 is none")
    real = positions >= 0
    taken = known.gather(1, positions.clamp(min=0)) & real
    if bool(taken.any()):
        raise AnyorderError(f"position {int(positions[taken][0])} {doing} though it is known or padding: {remedy}")
    if positions.shape[1] > 1:
        ordered = positions.sort(1).values
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        if bool(twice.any()):
            raise AnyorderError(f"position {int(ordered[:, 1:][twice][0])} {doing} twice: {remedy}")
