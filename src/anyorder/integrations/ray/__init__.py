"""Batch work on Ray: many texts scored, filled, generated or translated by a pool of workers, one model each.

>>> import ray
>>> from anyorder.integrations.ray import map
>>> scored = map(ray.data.read_parquet("texts/"), "score", method="bound", workers=8)
>>> scored.write_parquet("scores/")

Answers do not depend on the number of workers. Texts are answered in windows of :data:`WINDOW`, cut from the input in
its order; what a window is answered with depends on its texts, the options and the seed alone (a text's randomness
comes from the text), and answers are given back in the order of the input. So they are those of ``anyorder score``
and its like, byte for byte, on processors of one kind.

:func:`map` is for Ray Datasets. ``--engine ray`` of the commands is :func:`pool`: reading, journal and order stay those
of the plain command, and only the answering of windows moves to the workers.
"""

from anyorder.integrations.ray.datasets import map
from anyorder.integrations.ray.engine import Pool, pool
from anyorder.integrations.ray.worker import WINDOW, Job

__all__ = ["WINDOW", "Job", "Pool", "map", "pool"]
