"""Arnold–Gokhale (eq 4, 5): the joint whose conditionals are nearest to the model's."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.joints.fixed_point import fixed_point
from anyorder.joints.pair import PairJoint, Rows, check_tables, tiles
from anyorder.joints.threads import over_shares

_SMALL = 1024  # tokens up to which C is kept in float64: 8 MB
_ROUNDED = 1e-9  # tolerance where C is float64 but its entries were rounded to float32 before: finer says nothing


class Fit(NamedTuple):
    """Where the iteration ended: the joint is C_ab / (1/μ_a + 1/μ_b) / Z."""

    log_mu: tuple[Tensor, Tensor]  # the marginals that went into the last pass, [V] each, float64
    log_marginals: tuple[Tensor, Tensor]  # those that came out: the exact marginals of the joint
    log_z: float
    iterations: int
    change: float  # total variation between the two, the larger of the two positions
    converged: bool  # False where it stopped at its limit of passes


class ArnoldGokhale(PairJoint):
    """p(a, b) = C_ab / (1/μ_a + 1/μ_b) / Z with C = q(a|b) + q(b|a): one V×V matrix and two vectors.

    Attributes:
        iterations: passes over C that were needed.
        change: total variation of the marginals in the last of them.
        converged: whether they came to rest, rather than stopped at the limit of passes.
    """

    def __init__(self, c: Tensor, fit: Fit) -> None:
        self.vocab_size = c.shape[0]
        self.log_marginals = fit.log_marginals
        self.log_mu = fit.log_mu
        self.iterations, self.change, self.converged = fit.iterations, fit.change, fit.converged
        self._c = c
        # log μ_a + log μ_b - log(μ_a + μ_b) written as log of a sum of inverses, in the precision of C for tiles.
        self._inverse = tuple((fit.log_z - x).exp() for x in fit.log_mu)
        self._tile_inverse = tuple(x.to(c.dtype) for x in self._inverse)

    def log_prob(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        """log p(a, b), elementwise over broadcast token ids."""
        return self._c[a, b].double().log() - (self._inverse[0][a] + self._inverse[1][b]).log()

    def rows(self, a: Rows) -> Tensor:
        """log p(a, ·), [R, V]."""
        # C may be as small as the smallest normal number, so the quotient would underflow: two logarithms.
        inverse = self._tile_inverse[0][a][:, None] + self._tile_inverse[1]
        return self._c[a].log().sub_(inverse.log_())


def arnold_gokhale(
    log_a_given_b: Tensor,
    log_b_given_a: Tensor,
    *,
    tolerance: float | None = None,
    max_iterations: int = 1000,
    accelerate: bool = True,
) -> ArnoldGokhale:
    """The minimum of Σ_b KL(q(·|b) ‖ μ(·|b)) + Σ_a KL(q(·|a) ‖ μ(·|a)), eq 4, by the iteration of eq 5.

    If the tables belong to a joint, this is that joint. The iteration needs no V×V joint: C is fixed, and each step is
    one pass over it that sums rows and columns of C_ab / (1/μ_a + 1/μ_b). It stops when the marginals move by less than
    ``tolerance``; the paper's fixed 50 steps are ``accelerate=False, tolerance=0, max_iterations=50``.

    Args:
        log_a_given_b: [V, V] log q(a | b), a row for each b.
        log_b_given_a: [V, V] log q(b | a), a row for each a.
        tolerance: total variation of the marginals between two steps at which to stop; by default 1e-12 for
            float64 tables, 1e-6 for float32, and 1e-9 where float32 tables are small enough for C in float64.
        max_iterations: passes over C at most; ``converged`` of the joint says whether they were enough.
        accelerate: extrapolate between steps (:mod:`anyorder.joints.anderson`); without, each lowers the objective.
    """
    c = sum_of_conditionals(log_a_given_b, log_b_given_a)
    if tolerance is None and c.dtype != log_b_given_a.dtype:
        tolerance = _ROUNDED
    return ArnoldGokhale(c, fit(c, tolerance=tolerance, max_iterations=max_iterations, accelerate=accelerate))


def sum_of_conditionals(log_a_given_b: Tensor, log_b_given_a: Tensor) -> Tensor:
    """C[a, b] = q(a|b) + q(b|a), at least the smallest normal number, so that every logarithm below is finite.

    In the precision of the tables, or in float64 where that costs next to nothing.
    """
    v = check_tables(log_a_given_b, log_b_given_a)
    dtype = torch.float64 if v <= _SMALL else log_b_given_a.dtype
    c = torch.empty(v, v, dtype=dtype, device=log_b_given_a.device)
    for part in tiles(v):
        torch.exp(log_b_given_a[part].to(dtype), out=c[part])
        c[part] += log_a_given_b[:, part].T.to(dtype).exp()
    return c.clamp_(min=torch.finfo(c.dtype).tiny)


def fit(
    c: Tensor,
    *,
    tolerance: float | None = None,
    max_iterations: int = 1000,
    accelerate: bool = True,
    inside: tuple[Tensor, Tensor] | None = None,
) -> Fit:
    """Iterate eq 5 on the marginals alone, from the uniform distribution; how it ends, see :func:`arnold_gokhale`.

    Args:
        c: [A, B] C over the tokens of a and b that are looked at.
        inside: q(b looked at | a) [A] and q(a looked at | b) [B] where these are not all tokens. Cells of which only
            one conditional is known have no freedom in eq 4 with the unknown rows left out, μ(a, b) = μ_a q(b|a), so
            the sum of the cells looked at is ``inside`` times the marginal.
    """
    v = c.shape[0]
    if tolerance is None:
        tolerance = 1e-12 if c.dtype == torch.float64 else 1e-6
    share = torch.zeros(sum(c.shape), dtype=torch.float64, device=c.device)
    if inside is not None:
        share = torch.cat([s.double() for s in inside]).log()
    log_z = math.nan

    def step(x: Tensor) -> Tensor:
        nonlocal log_z
        mu = (x - share).exp()
        over_b, over_a = _sums(c, mu[:v], mu[v:])
        z = over_b.sum()
        log_z = float(z.log())
        return torch.cat([over_b / z, over_a / over_a.sum()])

    found = fixed_point(
        step,
        c.shape,
        tolerance=tolerance,
        max_iterations=max_iterations,
        accelerate=accelerate,
        floor=torch.finfo(c.dtype).tiny,
        device=c.device,
    )
    log_mu, log_marginals = ((x[:v], x[v:]) for x in (found.log_mu - share, found.log_marginals))
    return Fit(log_mu, log_marginals, log_z, found.iterations, found.change, found.converged)


def _sums(c: Tensor, mu_a: Tensor, mu_b: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column sums of C_ab / (1/μ_a + 1/μ_b) = μ_a μ_b C_ab / (μ_a + μ_b) in one pass over C, float64.

    A tile of the quotient stays in cache while two matrix-vector products read it; the factors μ_a and μ_b that are
    common to a whole row or column are applied outside, in float64.
    """
    a, b = mu_a.to(c.dtype), mu_b.to(c.dtype)

    def share(rows: slice) -> tuple[Tensor, Tensor]:
        mine, mu = c[rows], a[rows]
        over_b, over_a = torch.empty_like(mu), torch.zeros_like(mu_b)
        buffer = torch.empty_like(mine[next(tiles(*mine.shape))])
        for part in tiles(*mine.shape):
            tile = buffer[: part.stop - part.start]
            torch.add(mu[part, None], b, out=tile)
            torch.div(mine[part], tile, out=tile)
            torch.mv(tile, b, out=over_b[part])
            over_a += torch.mv(tile.T, mu[part])
        return over_b.double(), over_a

    over_b, over_a = zip(*over_shares(share, c), strict=True)
    return torch.cat(over_b) * mu_a, torch.stack(over_a).sum(0) * mu_b
