"""Student's t without scipy: small samples get standard errors that still mean what a reader takes them to mean."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

Z95 = 1.959963984540054  # the 97.5 % quantile of the normal


@lru_cache(maxsize=4096)
def widening(freedom: float) -> float:
    """The 97.5 % quantile of Student's t with ``freedom`` ≥ 1 degrees of freedom, over that of the normal.

    A standard error multiplied by it makes ``value ± 1.96 standard errors`` an honest 95 % interval. With
    t = √ν tan θ the density becomes cos^(ν-1) θ: bounded and smooth, so a plain sum inverts it to four digits.
    """
    theta = np.linspace(0.0, np.pi / 2, 20001)
    middle = (theta[1:] + theta[:-1]) / 2
    mass = np.concatenate([[0.0], np.cumsum(np.cos(middle) ** (freedom - 1))])
    return float(np.sqrt(freedom) * np.tan(np.interp(0.95, mass / mass[-1], theta))) / Z95
