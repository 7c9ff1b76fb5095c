"""Which tokens are hidden: priors p(r) on the masking ratio, and the masks drawn from them (Liao et al., section 3)."""

from anyorder.masking.collator import Masker, collate
from anyorder.masking.priors import (
    Beta,
    Fixed,
    FixedCount,
    Prior,
    RootCount,
    Uniform,
    UniformCount,
    log_count,
    parse_prior,
)

__all__ = [
    "Beta",
    "Fixed",
    "FixedCount",
    "Masker",
    "Prior",
    "RootCount",
    "Uniform",
    "UniformCount",
    "collate",
    "log_count",
    "parse_prior",
]
