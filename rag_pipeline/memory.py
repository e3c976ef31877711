"""Pause the garbage collector, and return freed memory to the operating system."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector while many long-lived objects are created.

    The pause halves the time for parsing Markdown, and saves 0.2 seconds of `rag search`.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def release_memory() -> None:
    """Return freed memory to the operating system. Do nothing if the C library is not glibc.

    Without these calls, the peak memory of `rag run` on the sample corpus is 8 to 10 % higher.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
