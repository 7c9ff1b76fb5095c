"""Arnold–Gokhale from the rows that carry mass only: as large a support as it takes to account for the rest.

The tokens of position a fall into S_a, whose rows q(·|a) were asked for, and the rest; likewise b. That cuts the table:

    I    S_a × S_b    both conditionals known: Arnold–Gokhale, C_ab / (1/μ_a + 1/μ_b)
    II   S_a × rest   q(b|a) known: μ_a q(b|a), which is what eq 4 gives when the unknown rows are left out of it
    III  rest × S_b   q(a|b) known: μ_b q(a|b)
    IV   rest × rest  nothing known, but its mass κ is

because in a joint with these conditionals, whose marginals are what the model says with both positions masked,

    κ = Σ_{b ∉ S_b} q_b(b) r_b,    r_b = q(a ∉ S_a | b),

and r_b is what the row of one token outside the support tells. A sample of such rows, the probes, drawn by q_b,
estimates κ with a standard error: the mass outside S_b, known beforehand from the model's answer under two masks, times
the spread of r_b, over the root of the number of probes. So a larger support saves probes, either position may be the
one that is probed, and the plan is whatever takes the fewest rows. What is bounded is therefore the *error* of κ, not
κ, which may be many times larger: a pair with at least one token in the support has its probability right to within a
factor 1 ± tail / (1 - κ), as far as the rows left out are concerned (95 %, for compatible conditionals; for others, as
far as they are compatible), while the pairs of IV have only their sum right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.joints.arnold_gokhale import fit
from anyorder.joints.passes import conditional_rows
from anyorder.joints.support_joint import SupportJoint
from anyorder.joints.tables import check_pair, masked_marginals
from anyorder.types import Conditionals

_PROBES = 32  # at least: below, a standard error is itself a guess
# Standard errors of the interval. Looking more than once costs some of its 95 %, systematic draws give it back: the
# tests hold it to that.
_Z = 2.0


def adaptive_joint(
    conditionals: Conditionals,
    tokens: Tensor,
    a: int,
    b: int,
    *,
    tail: float = 1e-3,
    start: int = 128,
    include: tuple[int, int] | None = None,
    seed: int = 0,
    report: Callable[[int], object] = lambda rows: None,
) -> SupportJoint:
    """The Arnold–Gokhale joint of positions a and b, from as few rows as ``tail`` allows.

    Args:
        conditionals: the model.
        tokens: [N] the text; what stands at a and b does not matter.
        a: the first position.
        b: the second position.
        tail: how far the mass outside, κ, may be from its estimate (95 %); κ itself may be larger.
        start: rows asked to begin with, in each direction.
        include: tokens (w_a, w_b) whose rows are asked in any case, such as the gold ones of an evaluation.
        seed: of the probes.
        report: called with the number of rows just finished.

    Returns:
        A joint over the whole vocabulary, with ``outside`` (κ), ``outside_error`` (half its 95 % interval, at most
        ``tail``) and ``rows_asked``.
    """
    check_pair(len(tokens), a, b)
    if not 0 < tail < 1:
        raise AnyorderError(f"the tail is a probability between 0 and 1, not {tail}: try 1e-3")
    generator = torch.Generator().manual_seed(seed)
    masked = masked_marginals(conditionals, tokens, a, b)
    # rows of q(b|a), indexed by a, and of q(a|b), indexed by b
    known = (_Direction(conditionals, tokens, a, b, report), _Direction(conditionals, tokens, b, a, report))
    for side in (0, 1):
        # What cannot stand there (restricted conditionals) is never in the support.
        wanted = masked[side].topk(min(start, int(masked[side].isfinite().sum()))).indices
        known[side].ask(wanted if include is None else torch.cat([wanted, torch.tensor([include[side]])]))
    probes = [_Probes(known[side], known[1 - side].ids, masked[side], generator) for side in (0, 1)]
    for sample in probes:
        sample.draw(_PROBES)
    side = min((0, 1), key=lambda s: probes[s].plan(tail).rows)
    sample = probes[side]
    while sample.error > tail:
        plan = sample.plan(tail)
        if plan.more:
            for rows in known:
                rows.keep_probes()  # paid for already; the next ones are drawn afresh
            known[side].ask(sample.likeliest(plan.more))
            sample = _Probes(known[side], known[1 - side].ids, masked[side], generator)
        sample.draw(plan.probes)
    asked = sum(len(rows.ids) + len(rows.probed) for rows in known)
    return _fit(known, masked, kappa=sample.kappa, error=min(1.0, sample.error), rows_asked=asked)


class _Direction:
    """The rows asked so far in one direction: log q(· | vary = token)."""

    def __init__(
        self, conditionals: Conditionals, tokens: Tensor, vary: int, ask: int, report: Callable[[int], object]
    ) -> None:
        self._model, self._tokens, self._vary, self._ask, self._report = conditionals, tokens, vary, ask, report
        self.ids = torch.empty(0, dtype=torch.long)  # tokens of the support
        self.log_q = torch.empty(0, conditionals.vocab_size)  # [K, V] their rows
        self.probed = torch.empty(0, dtype=torch.long)
        self._probe_q = torch.empty(0, conditionals.vocab_size)

    def ask(self, ids: Tensor) -> None:
        """Add tokens to the support."""
        new = ids[~torch.isin(ids, self.ids)].unique()
        rows = self._pass(new)
        self.ids, self.log_q = torch.cat([self.ids, new]), torch.cat([self.log_q.to(rows), rows])

    def probe(self, ids: Tensor) -> Tensor:
        """Rows [n, V] of tokens outside the support, remembered but not in it."""
        new = ids[~torch.isin(ids, self.probed)]
        rows = self._pass(new)
        self.probed, self._probe_q = torch.cat([self.probed, new]), torch.cat([self._probe_q.to(rows), rows])
        place = torch.full((int(self.probed.max()) + 1,), -1).scatter_(0, self.probed, torch.arange(len(self.probed)))
        return self._probe_q[place[ids]]

    def keep_probes(self) -> None:
        """Move the last probes into the support."""
        self.ids, self.log_q = torch.cat([self.ids, self.probed]), torch.cat([self.log_q, self._probe_q.to(self.log_q)])
        self.probed, self._probe_q = self.probed[:0], self._probe_q[:0]

    def _pass(self, ids: Tensor) -> Tensor:
        parts = []
        for answer in conditional_rows(self._model, self._tokens, self._vary, self._ask, ids):
            parts.append(answer.log_q)
            self._report(len(answer.log_q))
        return torch.cat(parts) if parts else torch.empty(0, self._model.vocab_size)


def _fit(known: tuple[_Direction, _Direction], masked: tuple[Tensor, ...], **corner: Any) -> SupportJoint:
    """Regions I to III from the rows known, and IV as ``corner`` says."""
    (ids_a, q_ba), (ids_b, q_ab) = ((k.ids, k.log_q) for k in known)
    c = q_ba[:, ids_b].double().exp() + q_ab[:, ids_a].T.double().exp()
    c.clamp_(min=torch.finfo(c.dtype).tiny)
    # With nothing left outside these are 1 up to rounding; a token that never sees the support still needs a share.
    inside = tuple(q[:, ids].double().exp().sum(1).clamp(1e-12, 1.0) for q, ids in ((q_ba, ids_b), (q_ab, ids_a)))
    found = fit(c, tolerance=1e-9, inside=(inside[0], inside[1]))
    return SupportJoint((ids_a, ids_b), (q_ba, q_ab), c, found, masked, **corner)


class _Plan(NamedTuple):
    """How to bring the error of κ down."""

    more: int  # tokens to add to the support
    probes: int  # draws to have then
    rows: int  # what both cost


class _Probes:
    """A sample of tokens outside the support of one side, and what their rows say of κ."""

    def __init__(self, rows: _Direction, others: Tensor, masked: Tensor, generator: torch.Generator) -> None:
        self._rows, self._others, self._generator = rows, others, generator
        self._left = masked.double().exp().index_fill_(0, rows.ids, 0.0)  # [V] q_b outside the support
        self.mass = float(self._left.sum())
        self._r = torch.empty(0, dtype=torch.float64)

    def draw(self, n: int) -> None:
        """Bring the sample to ``n`` draws."""
        more = n - len(self._r)
        if more <= 0 or self.mass <= 0:
            return
        # Systematic sampling: at least as precise as independent draws, whose standard error is what we state.
        points = torch.arange(more, dtype=torch.float64) + torch.rand(1, generator=self._generator, dtype=torch.float64)
        cumulated = self._left.cumsum(0)
        drawn = torch.searchsorted(cumulated, points / more * cumulated[-1]).clamp(max=len(cumulated) - 1)
        ids, place = drawn.unique(return_inverse=True)
        outside = 1 - self._rows.probe(ids)[:, self._others].double().exp().sum(1)
        self._r = torch.cat([self._r, outside.clamp(0.0, 1.0)[place]])

    @property
    def kappa(self) -> float:
        """κ; zero if the support is the whole vocabulary: there is no IV."""
        return self.mass * float(self._r.mean()) if self.mass > 0 else 0.0

    @property
    def error(self) -> float:
        """Half the width of κ's interval."""
        return _Z * self.mass * float(self._r.std()) / len(self._r) ** 0.5 if self.mass > 0 else 0.0

    def likeliest(self, k: int) -> Tensor:
        """The ``k`` tokens with the most mass outside the support."""
        return self._left.topk(k).indices

    def plan(self, tail: float) -> _Plan:
        """The fewest further rows after which the error should be ``tail``, if r spreads then as it does now."""
        tokens = int((self._left > 0).sum())
        left = (self.mass - self._left.sort(descending=True).values[:tokens].cumsum(0)).clamp(min=0.0)
        left = torch.cat([left.new_tensor([self.mass]), left])  # by tokens added, 0 to all of them
        spread = float(self._r.std()) if len(self._r) else 0.0
        probes = (1.1 * (_Z * spread * left / tail) ** 2).ceil().clamp(min=_PROBES)  # a tenth more: chance in `spread`
        probes[-1] = 0  # nothing is left to probe
        rows = torch.arange(tokens + 1) + probes
        rows[0] -= len(self._r)  # only without a larger support do the draws made so far count
        best = int(rows.argmin())
        return _Plan(best, int(probes[best]), int(rows[best]))
