"""Refuse before the work what would run out of memory after it; keep the memory of a long-running process steady."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from anyorder.errors import AnyorderError

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # of glibc's mallopt


def keep_steady() -> None:
    """Keep the memory of a process that answers for days steady, whatever the lengths of its texts.

    oneDNN keeps what it prepared for each shape, gigabytes in the end: fewer. glibc gives every thread a heap of its
    own, and once a large block was freed takes all up to its size from these heaps, where gaps between others stay: one
    heap for all threads, of which one works at a time, and large blocks outside it. With these set, it would give back
    every 128 kB at the heap's end and take them again, up to 1,600 page faults per answer: 64 MB may stay. Where the C
    library is another one, its own habits stay. To be called before torch is imported.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, 2**22)
        mallopt(_TRIM_THRESHOLD, 2**26)


def require_memory(needed: float, what: str, remedy: str, share: float = 0.9) -> None:
    """Refuse work that would not fit.

    Args:
        needed: Bytes.
        what: The work, as the beginning of a sentence.
        remedy: What to do instead, as its end.
        share: Of the free memory that the work may take; less where ``needed`` is a rough estimate.
    """
    available = available_memory()
    if needed > share * available:
        raise AnyorderError(f"{what} takes {_bytes(needed)} and {_bytes(available)} are free: {remedy}")


def available_memory() -> float:
    """Bytes that can still be had, by the system's estimate and the container's limit."""
    import psutil

    available = float(psutil.virtual_memory().available)
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text().strip()
    except OSError:
        return available  # no control group: the system's estimate stands alone
    return available if limit == "max" else min(available, float(limit) - float(used))


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} PB"
