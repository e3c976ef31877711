"""Allocation of memory: large blocks go back to the operating system when they are freed."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_LARGE = 4 << 20
_LARGE_AT_OPENING = 1 << 20
_ARENAS = 2


def bound_memory() -> None:
    """Make glibc return freed blocks of 4 MiB and more at once, and keep two arenas; idempotent.

    By default it keeps freed blocks of up to 32 MiB, in up to eight arenas a core. Where the C
    library is another one, nothing is done.
    """
    _set(_MMAP_THRESHOLD, _LARGE)
    _set(_ARENA_MAX, _ARENAS)


@contextmanager
def opening_a_model() -> Iterator[None]:
    """Return freed blocks of 1 MiB and more too: a model's weights are freed as others are made.

    They would leave holes of their sizes. A computation that allocates as much at every step must
    not run so: the system clears each block that it hands out, which costs a fifth of the time.
    """
    _set(_MMAP_THRESHOLD, _LARGE_AT_OPENING)
    try:
        yield
    finally:
        _set(_MMAP_THRESHOLD, _LARGE)


@contextmanager
def uncollected() -> Iterator[None]:
    """Do without Python's collector of garbage while much is made of which nothing is garbage.

    It walks all that has been made again and again: a seventh of the time of importing a project.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def release_memory() -> None:
    """Return what this process has freed to the operating system: Arrow's pool and glibc's."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _set(option: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(option, value)
