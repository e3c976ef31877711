"""Stop the work of requests that have ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

from rag_pipeline.errors import RequestEndedError

_ENDED: ContextVar[Event | None] = ContextVar("_ENDED", default=None)


@contextmanager
def request() -> Iterator[None]:
    """Mark the block as one request. Work that outlasts the block stops at its next `check`."""
    ended = Event()
    token = _ENDED.set(ended)
    try:
        yield
    finally:
        _ENDED.reset(token)
        ended.set()


def check() -> None:
    """Raise RequestEndedError if the request of this work has ended.

    Long work calls this function before each step, because Python can't stop a thread.
    """
    ended = _ENDED.get()
    if ended is not None and ended.is_set():
        raise RequestEndedError("the request has ended")
