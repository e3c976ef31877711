"""Limit the time and the address space of a parser process."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATUS = Path("/proc/self/statm")


def limit_memory(more_bytes: int) -> None:
    """Let the process's address space grow by at most `more_bytes` from now on."""
    if size := _address_space():
        _limit(size + more_bytes)


def _address_space() -> int:
    """Return the size of the address space in bytes, or 0 if the system doesn't report it."""
    try:
        return int(_STATUS.read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0


def _limit(wanted: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def more_room(seconds: float, more_bytes: int) -> Iterator[None]:
    """Raise the process's limits of time and memory inside the `with` block.

    OCR of a page needs this. `more_bytes` are added to the memory limit, and `seconds` become the
    time limit. A limit that is not set stays unset.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    if soft != resource.RLIM_INFINITY:
        _limit(soft + more_bytes)
    if left:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left)
        if soft != resource.RLIM_INFINITY:
            # Mapped memory stays mapped: the models are kept for the next page.
            _limit(max(soft, _address_space() + (256 << 20)))
