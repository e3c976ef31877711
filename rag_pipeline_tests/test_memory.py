"""What is freed goes back: measured in a process of its own, by what the system says it holds."""

import subprocess
import sys

import pytest

_HELD = """
import ctypes, sys
from rag_pipeline.memory import bound_memory, release_memory
def held():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = libc.memset.argtypes = None
def block(mebibytes):
    place = libc.malloc(mebibytes << 20)
    libc.memset(ctypes.c_void_p(place), 1, ctypes.c_size_t(mebibytes << 20))
    return ctypes.c_void_p(place)
"""


def _held(script: str) -> list[int]:
    ran = subprocess.run(
        [sys.executable, "-c", _HELD + script], check=True, capture_output=True, text=True
    )
    return [int(line) for line in ran.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and calls glibc")
@pytest.mark.parametrize(("bound", "kept"), [("", True), ("bound_memory()", False)])
def test_large_blocks_go_back_when_they_are_freed(bound, kept):
    # The first block that is freed raises glibc's own limit to its size: the next ones stay.
    before, after = _held(
        f"{bound}\nlibc.free(block(16))\nprint(held())\n"
        "blocks = [block(8) for _ in range(12)]\nlast = block(1)\n"
        "for b in blocks: libc.free(b)\nprint(held())"
    )
    assert (after - before > 60) == kept


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and calls glibc")
def test_what_arrow_keeps_for_later_is_let_go_of():
    before, after = _held(
        "import pyarrow as pa, numpy as np\n"
        "bound_memory()\nfirst = held()\n"
        "arrays = [pa.array(np.arange(100_000)).cast('int32') for _ in range(200)]\n"
        "print(held() - first)\ndel arrays\nrelease_memory()\nprint(held() - first)"
    )
    assert before > 60
    assert after < before / 2
