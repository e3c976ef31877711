"""Load documents in parallel, and yield them in the order of their sources."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.parser_process import stop_parsers
from rag_pipeline.loading.sources import Rejected, Source

_MAX_WAITING = 64
_MAX_BYTES = 64_000_000
"""Maximum raw bytes of parsed documents that wait for a slow document."""

T = TypeVar("T")
ParsedSource = tuple[Source, T, Document | DocumentError]
"""A source, the value that came with it, and its document or the error."""


def load_all(
    sources: Iterable[tuple[Source, T]], processes: int
) -> Generator[ParsedSource[T], None, None]:
    """Load documents in up to `processes` threads, and yield them in the order of the sources.

    Each source comes with a value, which is yielded with its document or error. The bytes of a
    source are read before the next source is taken, because a bucket's object is copied only until
    then.
    """
    started: deque[tuple[Source, T, Future[Document], int]] = deque()
    finished = False
    with ThreadPoolExecutor(processes, "load") as threads:
        try:
            for source, companion in sources:
                started.append((source, companion, *_start(threads, source)))
                while len(started) > _MAX_WAITING or sum(s[-1] for s in started) > _MAX_BYTES:
                    yield _wait(*started.popleft())
            while started:
                yield _wait(*started.popleft())
            finished = True
        finally:
            if not finished:  # no caller waits for the remaining documents
                threads.shutdown(wait=False, cancel_futures=True)
                stop_parsers()


def _start(threads: ThreadPoolExecutor, source: Source) -> tuple[Future[Document], int]:
    try:
        if isinstance(source, Rejected):
            raise source.error()
        raw = source.read()
    except DocumentError as error:
        failed: Future[Document] = Future()
        failed.set_exception(error)
        return failed, 0
    return threads.submit(copy_context().run, source.parse, raw), len(raw)


def _wait(source: Source, companion: T, future: Future[Document], _: int) -> ParsedSource[T]:
    try:
        return source, companion, future.result()
    except DocumentError as error:
        return source, companion, error
