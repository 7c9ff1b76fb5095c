"""Refuse before the work what would run out of memory after it."""

from __future__ import annotations

from pathlib import Path

from anyorder.errors import AnyorderError


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
