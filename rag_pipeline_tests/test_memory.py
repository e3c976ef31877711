"""Freed memory goes back to the operating system, measured in a process of its own."""

import subprocess
import sys

import pytest

_SCRIPT = """
import ctypes
from rag_pipeline.memory import release_memory
def held():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = libc.memset.argtypes = None
blocks = [ctypes.c_void_p(libc.malloc(1 << 16)) for _ in range(1000)]
for block in blocks: libc.memset(block, 1, ctypes.c_size_t(1 << 16))
last = libc.malloc(1 << 16)
for block in blocks: libc.free(block)
print(held())
release_memory()
print(held())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and calls glibc")
def test_freed_memory_goes_back() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT], check=True, capture_output=True, text=True
    )
    before, after = map(int, ran.stdout.split())
    assert before - after > 50  # MiB, of 62.5 that were freed
