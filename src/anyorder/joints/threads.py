"""One share of a large table's rows for each thread, from the first operation on it to the last.

torch divides every operation among its threads again, and a column sum along the other axis than the rest. A tile that
several operations go over in cache then wanders between the cores, which can cost more than the arithmetic.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

_T = TypeVar("_T")
_LARGE = 2**22  # cells from which a second thread pays


def over_shares(function: Callable[[slice], _T], table: Tensor) -> list[_T]:
    """``function`` of each thread's range of the table's rows, all at once; the answers in the order of the rows."""
    threads = torch.get_num_threads()
    parts = min(threads, len(table)) if table.device.type == "cpu" and table.numel() >= _LARGE else 1
    if parts == 1:
        return [function(slice(0, len(table)))]
    cuts = [len(table) * i // parts for i in range(parts + 1)]
    shares = [slice(start, stop) for start, stop in itertools.pairwise(cuts)]
    return list(_pool(threads, os.getpid()).map(function, shares))


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """As many threads as torch has, in each of which torch itself uses one; a forked ``process`` needs its own."""

    def alone() -> None:
        torch.get_num_threads()  # its first call in a thread resets the number, so it must come before
        torch.set_num_threads(1)

    pool = ThreadPoolExecutor(threads, "anyorder", alone)
    started = threading.Barrier(threads)
    list(pool.map(lambda _: started.wait(), range(threads)))
    torch.set_num_threads(threads)  # what other threads begin with had become 1
    return pool
