"""End the work of a request that nobody waits for any more."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

from rag_pipeline.errors import RequestEndedError

_ENDED: ContextVar[Event | None] = ContextVar("_ENDED", default=None)


@contextmanager
def request() -> Iterator[None]:
    """Stop work that this block starts, also in threads, at the first `check` after the block."""
    ended = Event()
    token = _ENDED.set(ended)
    try:
        yield
    finally:
        _ENDED.reset(token)
        ended.set()


def check() -> None:
    """Raise RequestEndedError if the request of this work has ended. Else do nothing.

    Long work calls this before each of its steps, because Python cannot stop a thread.
    """
    ended = _ENDED.get()
    if ended is not None and ended.is_set():
        raise RequestEndedError("the request has ended")
