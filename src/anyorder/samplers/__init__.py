"""Samplers: (init, step) pairs over a batch of independent rows, one algorithm per file.

>>> from anyorder.samplers import gibbs, run
>>> run(gibbs(conditionals, block=2), tokens, free, generator=torch.Generator().manual_seed(0), steps=100).tokens
"""

from anyorder.samplers.adaptive import adaptive
from anyorder.samplers.any_order import any_order
from anyorder.samplers.beam import Beam, Rules, beam, beams
from anyorder.samplers.gibbs import gibbs
from anyorder.samplers.metropolis import metropolis
from anyorder.samplers.parallel import parallel
from anyorder.samplers.refine import refine
from anyorder.samplers.run import Run, Trace, run, stream
from anyorder.samplers.seeds import Seeds
from anyorder.samplers.speculative import speculative
from anyorder.samplers.warpers import warper

__all__ = [
    "Beam",
    "Rules",
    "Run",
    "Seeds",
    "Trace",
    "adaptive",
    "any_order",
    "beam",
    "beams",
    "gibbs",
    "metropolis",
    "parallel",
    "refine",
    "run",
    "speculative",
    "stream",
    "warper",
]
