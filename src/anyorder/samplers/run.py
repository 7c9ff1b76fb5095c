"""The only loops: run a sampler to its end, or watch it step by step.

Streaming, tracing, the progress bar and the web page are all this loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.types import Info, Randomness, S, Sampler


class Trace(NamedTuple):
    """The infos of T steps, stacked; steps with fewer slots than the widest end in position -1."""

    positions: Tensor  # [T, B, K]
    tokens: Tensor  # [T, B, K]
    log_prob: Tensor  # [T, B, K]
    entropy: Tensor  # [T, B, K]
    rows: Tensor  # [T] rows sent through the model
    accepted: Tensor | None  # [T, B] bool, for samplers that may refuse

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def acceptance(self) -> float | None:
        """Share of proposals accepted, over all rows and steps that made one; None for samplers without."""
        if self.accepted is None:
            return None
        made = (self.positions >= 0).any(-1)
        return float(self.accepted[made].double().mean()) if made.any() else None


class Run(NamedTuple, Generic[S]):
    """Where a run ended, and how it got there."""

    state: S
    trace: Trace | None  # None when it was not kept

    @property
    def tokens(self) -> Tensor:
        """[B, N] the texts at the end."""
        return self.state.tokens

    @property
    def log_prob(self) -> Tensor:
        """[B] summed log q of all that was drawn: for any-order, the log-probability of the text along its order."""
        if self.trace is None:
            raise AnyorderError("the log-probability needs the trace: call run(..., trace=True)")
        return self.trace.log_prob.sum((0, 2))

    @property
    def rows(self) -> int:
        """Rows sent through the model, all steps together."""
        if self.trace is None:
            raise AnyorderError("the number of rows needs the trace: call run(..., trace=True)")
        return int(self.trace.rows.sum())


def stream(
    sampler: Sampler[S], tokens: Tensor, free: Tensor, *, generator: Randomness, steps: int | None = None
) -> Iterator[tuple[S, Info]]:
    """Yield (state, info) after every step, until every row is done or ``steps`` have been made.

    Args:
        sampler: Any sampler of this package.
        tokens: [B, N] the texts; what is not free is never changed.
        free: [B, N] bool, the positions to fill or resample. Padding is never free.
        generator: The source of all randomness: one generator for the batch, or a source for each row
            (:class:`anyorder.samplers.seeds.Seeds`), with which a row's text does not depend on the batch it is in.
        steps: At most this many; needed by chains (Gibbs, Metropolis, adaptive), which have no end of their own.
    """
    if tokens.shape != free.shape or tokens.ndim != 2 or free.dtype != torch.bool:
        raise AnyorderError(
            f"tokens and free must be [B, N] of one shape and free boolean, not {list(tokens.shape)} and "
            f"{list(free.shape)} {free.dtype}: build free with torch.bool"
        )
    if steps is not None and steps < 0:
        raise AnyorderError(f"steps must not be negative, not {steps}: choose 1 or more")
    if steps is None and not sampler.ends:
        raise AnyorderError("a chain has no end of its own: say how many steps to make")
    state = sampler.init(tokens, free)
    made = 0
    while (steps is None or made < steps) and not bool(state.done.all()):
        with torch.no_grad():
            state, info = sampler.step(generator, state)
        made += 1
        yield state, info


def run(
    sampler: Sampler[S],
    tokens: Tensor,
    free: Tensor,
    *,
    generator: Randomness,
    steps: int | None = None,
    trace: bool = True,
) -> Run[S]:
    """Run ``sampler`` to its end; arguments as :func:`stream`. Without ``trace`` long chains hold no history."""
    state, infos = None, []
    for state, info in stream(sampler, tokens, free, generator=generator, steps=steps):  # noqa: B007 - the last one
        if trace:
            infos.append(info)
    if state is None:
        state = sampler.init(tokens, free)
    return Run(state, stack(infos, tokens) if trace else None)


def stack(infos: list[Info], tokens: Tensor) -> Trace:
    """Infos of any widths -> one :class:`Trace` over the batch of ``tokens``."""
    width = max((info.positions.shape[1] for info in infos), default=0)

    def wide(name: str, fill: int, dtype: torch.dtype) -> Tensor:
        out = torch.full((len(infos), len(tokens), width), fill, dtype=dtype, device=tokens.device)
        for t, info in enumerate(infos):
            part = getattr(info, name)
            out[t, :, : part.shape[1]] = part
        return out

    accepted = [info.accepted for info in infos if info.accepted is not None]
    return Trace(
        positions=wide("positions", -1, torch.long),
        tokens=wide("tokens", 0, torch.long),
        log_prob=wide("log_prob", 0, torch.float64),
        entropy=wide("entropy", 0, torch.float64),
        rows=torch.tensor([info.rows for info in infos], dtype=torch.long),
        accepted=torch.stack(accepted) if accepted else None,
    )
