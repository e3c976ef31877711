"""Stop the work of requests that have ended."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event
from typing import Any

from rag_pipeline.errors import RequestEndedError

_ENDED: ContextVar[Event | None] = ContextVar("_ENDED", default=None)
WORK: ContextVar[list[Future[Any]]] = ContextVar("WORK")
"""The work in threads that belongs to the current request."""


@contextmanager
def request() -> Iterator[list[Future[Any]]]:
    """Mark the block as one request, and yield its `WORK`. Later work stops at its `check`."""
    ended, work = Event(), list[Future[Any]]()
    tokens = _ENDED.set(ended), WORK.set(work)
    try:
        yield work
    finally:
        _ENDED.reset(tokens[0])
        WORK.reset(tokens[1])
        ended.set()


def check() -> None:
    """Raise RequestEndedError if the request of this work has ended.

    Long work calls this function before each step, because Python can't stop a thread.
    """
    ended = _ENDED.get()
    if ended is not None and ended.is_set():
        raise RequestEndedError("the request has ended")
