"""Arnold–Gokhale from the rows that carry mass only: the support grows until the rest is accounted for.

The tokens of position a fall into S_a, whose rows q(·|a) were asked for, and the rest; likewise b. That cuts the table:

    I    S_a × S_b    both conditionals known: Arnold–Gokhale, C_ab / (1/μ_a + 1/μ_b)
    II   S_a × rest   q(b|a) known: μ_a q(b|a), which is what eq 4 gives when the unknown rows are left out of it
    III  rest × S_b   q(a|b) known: μ_b q(a|b)
    IV   rest × rest  nothing known, but its mass κ is

because a joint p that has these conditionals satisfies, with r_b = q(a ∉ S_a | b),

    κ = Σ_{b ∉ S_b} p(S_a, b) r_b / (1 - r_b),

an average over a known distribution (the columns of II) of a number that one row tells. A sample of such rows, the
probes, estimates κ without bias from either side, with a standard error. What is certified is therefore the *error* of
κ, not κ: a pair with at least one token in the support has its probability right to within a factor 1 ± tail, as far as
the rows left out are concerned (95 %, for compatible conditionals; for others, as far as they are compatible).
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

_GROWTH = 1.5  # of the rows, from round to round
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
        estimates = [
            _probe(known[side], known[1 - side].ids, columns[side], max(_PROBES, size // 2), generator)
            for side in (0, 1)
        ]
        kappa, error = _combine(estimates, [float(c.sum()) for c in columns])
        if _Z * error <= tail or all(len(k.ids) == v for k in known):
            rows = sum(len(k.ids) + len(k.probed) for k in known)
            return joint.with_corner(kappa, tail=min(1.0, _Z * error), rows_asked=rows)
        # Probed rows cost nothing more: they join the support, and the next probes are drawn afresh.
        for side in (0, 1):
            known[side].keep_probes()
            weight[side] = torch.maximum(columns[side], masked[side].double().exp() * float(columns[side].sum()))
        size = int(_GROWTH * max(size, *(len(k.ids) for k in known)))


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
        self.probed = ids
        self._probe_q = self._pass(ids)
        return self._probe_q

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


def _probe(rows: _Rows, others: Tensor, mass: Tensor, n: int, generator: torch.Generator) -> tuple[float, float]:
    """κ and its standard error from one side; ``mass`` [V] is the known mass of the tokens outside ``rows.ids``."""
    total = mass.sum()
    if float(total) <= 0:
        return 0.0, 0.0  # nothing is outside
    # Systematic sampling: at least as precise as independent draws, whose standard error is what we state.
    points = (torch.arange(n, dtype=torch.float64) + torch.rand(1, generator=generator, dtype=torch.float64)) / n
    drawn = torch.searchsorted(mass.cumsum(0), points * total).clamp(max=len(mass) - 1)
    ids, times = drawn.unique(return_counts=True)
    log_q = rows.probe(ids)
    inside = log_q[:, others].double().exp().sum(1).clamp(1e-12, 1.0)
    y = ((1 - inside) / inside).repeat_interleave(times)
    return float(total * y.mean()), float(total * y.std() / n**0.5)


def _combine(estimates: list[tuple[float, float]], mass: list[float]) -> tuple[float, float]:
    """Both sides estimate the same κ; a side with less mass outside its support has the smaller error.

    The weights are not taken from the estimated errors, which are smallest where κ happens to be underestimated.
    """
    if min(mass) <= 0.0:
        return 0.0, 0.0
    weights = [m**-2 / sum(x**-2 for x in mass) for m in mass]
    kappa = sum(w * k for w, (k, _) in zip(weights, estimates, strict=True))
    return kappa, sum((w * error) ** 2 for w, (_, error) in zip(weights, estimates, strict=True)) ** 0.5
