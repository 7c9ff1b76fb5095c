"""The contracts of the project: everything above a model knows only these names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor


class Conditionals(Protocol):
    """The conditionals log q(x_t | observed) of a masked model, and nothing else about it."""

    vocab_size: int
    mask_id: int
    pad_id: int | None  # shorter rows end in it; it is never attended to

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Log-probabilities of every token at the asked positions.

        Args:
            tokens: [B, N] with ``mask_id`` at the unknowns.
            positions: [B, K] indices into N. ``-1`` asks for nothing: a row with fewer questions than K ends in
                -1, costs no work there, and is answered with the uniform distribution.

        Returns:
            log q, [B, K, V], normalised over V.
        """
        ...


@runtime_checkable
class TokenScores(Protocol):
    """Optional, beside ``Conditionals``: log q of given tokens without ever holding log q of all V.

    Scores ask for it through :func:`anyorder.scoring.ask.log_q_of`, which picks from log q where it is missing.
    """

    def of_tokens(self, tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        """log q of the ``wanted`` tokens [B, K] at ``positions`` [B, K], 0 where a position is -1: [B, K]."""
        ...


@runtime_checkable
class LogitRows(Protocol):
    """Optional, beside ``Conditionals``: many rows of one length asked at one position, with the softmax's normaliser.

    Joints ask for it through :func:`anyorder.joints.passes.conditional_rows`, which asks the plain conditionals where
    it is missing; they have no logits, so MRF-logit is then refused.
    """

    token_budget: int  # tokens to send at once

    def logit_rows(self, rows: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """(log q [n, V], log z [n]) at ``position`` of ``rows`` [n, N]; the logits are log q + log z."""
        ...


@runtime_checkable
class RowWise(Protocol):
    """Optional, beside ``Conditionals``: answers that depend on which row of the batch asks, not on its tokens alone.

    Samplers ask for it through :func:`anyorder.samplers.draw.of_rows` where they send some of the rows, or several of
    their own for one.
    """

    def of_rows(self, rows: Tensor) -> Conditionals:
        """The same for a batch of the rows ``rows`` [b] of this one."""
        ...


@runtime_checkable
class Ordered(Protocol):
    """A model that reads tokens one after another, in any order, and keeps what it has read.

    Given tokens see each other; every other token, read at its own position, sees those given, those read before it
    and itself. So what was read never changes, and log q(x_σt | given, x_σ<t) is one joint law by the chain rule.
    """

    vocab_size: int
    mask_id: int
    pad_id: int | None

    def begin(self, tokens: Tensor, given: Tensor) -> Any:
        """Read the ``given`` [B, N] bool among ``tokens`` [B, N]; what else ``tokens`` holds is not looked at.

        Returns:
            A memory. Others may look at its ``known`` [B, N] alone: what was given or read, or is padding.
        """
        ...

    def read(self, memory: Any, positions: Tensor, tokens: Tensor) -> Any:
        """Read ``tokens`` [B, K] at ``positions`` [B, K], one column after the other; -1 reads nothing in that row.

        Returns:
            The memory to go on with: ``memory`` itself may have been used up.
        """
        ...

    def ask(self, memory: Any, positions: Tensor) -> Tensor:
        """log q at ``positions`` [B, K] given all that was read, [B, K, V]; -1 is answered as by Conditionals.

        Questions are independent of each other, and nothing that is read or asked later knows of them.
        """
        ...

    def read_asking(self, memory: Any, positions: Tensor, tokens: Tensor, asked: Tensor) -> tuple[Any, Tensor]:
        """:meth:`read`, and after each column the question ``asked`` [B, K] in that column: [B, K, V], in one pass.

        So the k-th answer is given all that was read before and the columns up to k, itself included.
        """
        ...

    def forget(self, memory: Any, positions: Tensor) -> Any:
        """The memory as if ``positions`` [B, K], the last that were read, had not been; -1 forgets nothing."""
        ...

    def chain(self, tokens: Tensor, given: Tensor, order: Tensor) -> Tensor:
        """log q(x_σt | given, x_σ<t) of the tokens themselves, [B, N] float64, 0 where nothing is predicted.

        Args:
            tokens: [B, N] the texts.
            given: [B, N] bool, what is known beforehand.
            order: [B, K] the positions σ_1 … σ_K of each text; shorter ones end in -1. A position that is neither
                given nor in the order is never seen.
        """
        ...


class Noise(Protocol):
    """Randomness that belongs to the rows of a batch, one source each; see :class:`anyorder.samplers.seeds.Seeds`.

    What a row is given does not depend on the rows beside it or on how far they are padded, so neither does its text.
    """

    def uniforms(self, rows: int, length: int, count: int) -> Tensor:
        """[count, rows, length] float64 in [0, 1), fresh at every call."""
        ...


# One generator for the whole batch (a row's draws then depend on its place in it), or a source for each row.
Randomness = torch.Generator | Noise


class State(Protocol):
    """What a sampler's next step needs. Each sampler has its own; these two fields are common to all."""

    @property
    def tokens(self) -> Tensor:
        """[B, N] the texts as they stand, ``mask_id`` where nothing is decided."""
        ...

    @property
    def done(self) -> Tensor:
        """[B] bool: rows for which further steps change nothing."""
        ...


class Info(NamedTuple):
    """What one step did, for whoever watches. Rows that changed fewer than K positions end in position -1."""

    positions: Tensor  # [B, K] positions drawn in this step, -1 for none
    tokens: Tensor  # [B, K] the tokens drawn there
    log_prob: Tensor  # [B, K] log q of each under the model's own (unwarped) conditional, 0 where position is -1
    entropy: Tensor  # [B, K] entropy in nats of that conditional, 0 where position is -1
    rows: int  # rows sent through the model in this step, for the whole batch
    accepted: Tensor | None = None  # [B] bool, for samplers that may refuse a proposal


S = TypeVar("S", bound=State)


class Sampler(NamedTuple, Generic[S]):
    """A Markov chain or a generation order, as a pair of functions over a batch of independent rows.

    ``S`` is the sampler's own state: only ``step`` looks further than its ``tokens`` and ``done``.
    """

    init: Callable[[Tensor, Tensor], S]  # (tokens [B,N], free [B,N] bool) -> State
    step: Callable[[Randomness, S], tuple[S, Info]]  # (generator, State) -> (State, Info)
    ends: bool = True  # every row is done after some steps; False: a chain, which stops when its reader does


class Joint(Protocol):
    """An explicit distribution over the tokens (a, b) of two positions."""

    vocab_size: int

    def log_prob(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        """log p(a, b), elementwise over broadcast token ids."""
        ...

    def marginal(self, axis: int) -> Tensor:
        """Log marginal [V] of position ``axis`` (0 = a, 1 = b)."""
        ...

    def conditional(self, axis: int, token: int) -> Tensor:
        """Log conditional [V] of the *other* position, given that position ``axis`` holds ``token``."""
        ...

    def top(self, k: int) -> list[tuple[int, int, float]]:
        """The k most probable pairs as (a, b, probability), best first."""
        ...
