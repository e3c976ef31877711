"""Read each table and note once in a look at many partitions, which changes nothing."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")
_READ: ContextVar[dict[Hashable, Any] | None] = ContextVar("read", default=None)


@contextmanager
def looking() -> Iterator[None]:
    """Keep what `read_once` reads, until the end of the block. Other threads read for themselves.

    A change of the store is not seen within the block.
    """
    before = _READ.set({})
    try:
        yield
    finally:
        _READ.reset(before)


def read_once(key: Hashable, read: Callable[[], _T]) -> _T:
    """Return the value of `read`, or its earlier value for the same key in this look."""
    known = _READ.get()
    if known is None:
        return read()
    if key not in known:
        known[key] = read()
    found: _T = known[key]
    return found
