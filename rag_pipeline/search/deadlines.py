"""Run the work of a request in threads, and stop it when the request has ended."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Event
from typing import Any, TypeVar

from rag_pipeline.calls.contexts import setting
from rag_pipeline.errors import RequestEndedError

T = TypeVar("T")
R = TypeVar("R")
_MAX_THREADS = 8
_ENDED: ContextVar[Event | None] = ContextVar("_ENDED", default=None)
WORK: ContextVar[list[Future[Any]]] = ContextVar("WORK")
"""The work in threads that belongs to the current request."""


@contextmanager
def request() -> Iterator[list[Future[Any]]]:
    """Mark the block as one request, and yield its `WORK`. Later work stops at its `check`."""
    ended, work = Event(), list[Future[Any]]()
    with setting(_ENDED, ended), setting(WORK, work):
        try:
            yield work
        finally:
            ended.set()


def check() -> None:
    """Raise RequestEndedError if the request of this work has ended.

    Long work calls this function before each step, because Python can't stop a thread.
    """
    ended = _ENDED.get()
    if ended is not None and ended.is_set():
        raise RequestEndedError("the request has ended")


def in_parallel(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the result of `work` for each item. Threads compute it in the caller's context."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _MAX_THREADS)) as pool:
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        return [one.result() for one in waiting]
