"""Work that would not fit is refused before it begins."""

from pathlib import Path

import psutil
import pytest

from anyorder import memory
from anyorder.errors import AnyorderError
from anyorder.memory import available_memory, require_memory


def test_what_does_not_fit_is_refused_with_both_sizes_and_the_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 4e9)
    require_memory(3.5e9, "it", "do less")
    with pytest.raises(AnyorderError, match="it takes 8 GB and 4 GB are free: do less"):
        require_memory(8e9, "it", "do less")
    with pytest.raises(AnyorderError, match=r"it takes 3\.5 GB"):
        require_memory(3.5e9, "it", "do less", share=0.5)


@pytest.mark.parametrize(("limit", "expected"), [("max", None), ("3000", 2000.0)])
def test_a_container_has_what_its_limit_leaves(monkeypatch, limit, expected):
    files = {"/sys/fs/cgroup/memory.max": limit, "/sys/fs/cgroup/memory.current": "1000"}
    monkeypatch.setattr(Path, "read_text", lambda self: files[str(self)])
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 10**9}))
    assert available_memory() == (expected or 1e9)
