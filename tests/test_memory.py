"""Work that would not fit is refused before it begins."""

import platform
import subprocess
import sys
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


# How many bytes 16 MB take outside the heap, after 24 MB were freed: glibc has learnt to put such blocks into the heap.
OUTSIDE = """
import ctypes, sys
from anyorder.memory import keep_steady
if sys.argv[1:]:
    keep_steady()
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]
c = ctypes.CDLL(None)
c.mallinfo2.restype, c.malloc.restype, c.free.argtypes = Info, ctypes.c_void_p, [ctypes.c_void_p]
c.free(c.malloc(24 * 2**20))
before = c.mallinfo2().hblkhd
assert c.malloc(16 * 2**20)
print(c.mallinfo2().hblkhd - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_a_process_kept_steady_takes_large_blocks_outside_its_heap():
    def outside(*steady):
        return int(subprocess.run([sys.executable, "-c", OUTSIDE, *steady], capture_output=True, check=True).stdout)

    assert outside() == 0
    assert outside("steady") >= 16 * 2**20
