"""Samplers: (init, step) pairs over a batch of independent rows, one algorithm a file.

>>> from anyorder.samplers import gibbs, run
>>> run(gibbs(conditionals, block=2), tokens, free, generator=torch.Generator().manual_seed(0), steps=100).tokens
"""

from anyorder.samplers.any_order import any_order
from anyorder.samplers.gibbs import gibbs
from anyorder.samplers.run import Run, Trace, run, stream

__all__ = ["Run", "Trace", "any_order", "gibbs", "run", "stream"]
