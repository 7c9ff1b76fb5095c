"""Arnold–Gokhale from the rows that carry mass only: the support grows until the rest is accounted for.

The tokens of position a fall into S_a, whose rows q(·|a) were asked for, and the rest; likewise b. That cuts the table:

    I    S_a × S_b    both conditionals known: Arnold–Gokhale, C_ab / (1/μ_a + 1/μ_b)
    II   S_a × rest   q(b|a) known: μ_a q(b|a), which is what eq 4 gives when the unknown rows are left out of it
    III  rest × S_b   q(a|b) known: μ_b q(a|b)
    IV   rest × rest  nothing known, but its mass κ is

because in a joint with these conditionals, whose marginals are what the model says with both positions masked,

    κ = Σ_{b ∉ S_b} q_b(b) r_b,    r_b = q(a ∉ S_a | b),

and r_b is what the row of one token outside the support tells. A sample of such rows, the probes, drawn by q_b,
estimates κ with a standard error; the same from the other side gives a second estimate. What is certified is therefore
the *error* of κ, not κ: a pair with at least one token in the support has its probability right to within a factor
1 ± tail, as far as the rows left out are concerned (95 %, for compatible conditionals; for others, as far as they are
compatible).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.joints.arnold_gokhale import fit
from anyorder.joints.passes import conditional_rows
from anyorder.joints.support_joint import SupportJoint
from anyorder.joints.tables import check_pair, masked_marginals
from anyorder.types import Conditionals

_GROWTH = 1.5  # of the support, from round to round
_PROBES = 32  # at least, in each direction: below, a standard error is itself a guess
# Standard errors of the interval. 2.6 would be 99 % of a single look; stopping at the first round that satisfies, and
# the skewness of the terms, leave 95 %, which the tests hold it to.
_Z = 2.6


def adaptive(
    conditionals: Conditionals,
    tokens: Tensor,
    a: int,
    b: int,
    *,
    tail: float = 1e-3,
    start: int = 64,
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
        tail: mass that may stay unaccounted for.
        start: rows of the first round, in each direction.
        include: tokens (w_a, w_b) whose rows are asked in any case, such as the gold ones of an evaluation.
        seed: of the probes.
        report: called with the number of rows just finished.

    Returns:
        A joint over the whole vocabulary, with ``tail`` (what is certified), ``outside`` (κ) and ``rows_asked``.
    """
    check_pair(len(tokens), a, b)
    if not 0 < tail < 1:
        raise AnyorderError(f"the tail is a probability between 0 and 1, not {tail}: try 1e-3")
    v = conditionals.vocab_size
    generator = torch.Generator().manual_seed(seed)
    masked = masked_marginals(conditionals, tokens, a, b)
    # rows of q(b|a), indexed by a, and of q(a|b), indexed by b
    known = (_Rows(conditionals, tokens, a, b, report), _Rows(conditionals, tokens, b, a, report))
    weight = [m.double().exp() for m in masked]  # what each token is thought to carry, to choose rows by
    size = start
    while True:
        for side in (0, 1):
            wanted = weight[side].topk(min(size, v)).indices
            if include is not None:
                wanted = torch.cat([wanted, torch.tensor([include[side]])])
            known[side].ask(wanted)
        joint, columns = _fit(known, masked)
        probes = [_Probes(known[s], known[1 - s].ids, masked[s], generator) for s in (0, 1)]
        kappa, error = _estimate(probes, max(_PROBES, size // 8))
        # The error falls with the root of the number of probes: worth it up to as many as the support has rows.
        needed = 1.1 * max(_PROBES, size // 8) * (error / tail) ** 2
        if tail < error and needed <= size:
            kappa, error = _estimate(probes, int(needed) + 1)
        if error <= tail or all(len(k.ids) == v for k in known):
            rows = sum(len(k.ids) + len(k.probed) for k in known)
            return joint.with_corner(kappa, tail=min(1.0, error), rows_asked=rows)
        # Probed rows cost nothing more: they join the support, and the next probes are drawn afresh.
        for side in (0, 1):
            known[side].keep_probes()
            weight[side] = torch.maximum(columns[side], masked[side].double().exp() * float(columns[side].sum()))
        size = int(_GROWTH * size)


class _Rows:
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


def _fit(known: tuple[_Rows, _Rows], masked: tuple[Tensor, Tensor]) -> tuple[SupportJoint, tuple[Tensor, Tensor]]:
    """Regions I to III from the rows known, and the mass each token outside the support has in III and II."""
    (ids_a, q_ba), (ids_b, q_ab) = ((k.ids, k.log_q) for k in known)
    c = q_ba[:, ids_b].double().exp() + q_ab[:, ids_a].T.double().exp()
    c.clamp_(min=torch.finfo(c.dtype).tiny)
    # With nothing left outside these are 1 up to rounding; a token that never sees the support still needs a share.
    inside = tuple(q[:, ids].double().exp().sum(1).clamp(1e-12, 1.0) for q, ids in ((q_ba, ids_b), (q_ab, ids_a)))
    found = fit(c, tolerance=1e-9, inside=(inside[0], inside[1]))
    joint = SupportJoint((ids_a, ids_b), (q_ba, q_ab), c, found, masked)
    return joint, joint.columns


class _Probes:
    """A sample of tokens outside the support of one side, and what their rows say of κ."""

    def __init__(self, rows: _Rows, others: Tensor, masked: Tensor, generator: torch.Generator) -> None:
        self._rows, self._others, self._generator = rows, others, generator
        self._cumulated = masked.double().exp().index_fill_(0, rows.ids, 0.0).cumsum(0)
        self.mass = float(self._cumulated[-1])  # q_b(b ∉ S_b)
        self._r = torch.empty(0, dtype=torch.float64)

    def draw(self, n: int) -> None:
        """Bring the sample to ``n`` draws."""
        more = n - len(self._r)
        if more <= 0:
            return
        # Systematic sampling: at least as precise as independent draws, whose standard error is what we state.
        points = torch.arange(more, dtype=torch.float64) + torch.rand(1, generator=self._generator, dtype=torch.float64)
        drawn = torch.searchsorted(self._cumulated, points / more * self.mass).clamp(max=len(self._cumulated) - 1)
        ids, place = drawn.unique(return_inverse=True)
        outside = 1 - self._rows.probe(ids)[:, self._others].double().exp().sum(1)
        self._r = torch.cat([self._r, outside.clamp(0.0, 1.0)[place]])

    def kappa(self) -> tuple[float, float]:
        """κ and its standard error."""
        return self.mass * float(self._r.mean()), self.mass * float(self._r.std()) / len(self._r) ** 0.5


def _estimate(probes: list[_Probes], n: int) -> tuple[float, float]:
    """κ by both sides together, and the half-width of its interval.

    The side with less mass outside its support is the more precise one. The weights are not taken from the estimated
    errors, which are smallest where κ happens to be underestimated.
    """
    if min(p.mass for p in probes) <= 0:
        return 0.0, 0.0  # one support is the whole vocabulary: there is no IV
    for p in probes:
        p.draw(n)
    total = sum(p.mass**-2 for p in probes)
    weights = [p.mass**-2 / total for p in probes]
    found = [p.kappa() for p in probes]
    error = sum((w * e) ** 2 for w, (_, e) in zip(weights, found, strict=True)) ** 0.5
    return sum(w * k for w, (k, _) in zip(weights, found, strict=True)), _Z * error
