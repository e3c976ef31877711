"""Load documents in parallel, and yield them in the order of their sources."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import NamedTuple, TypeVar

from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.parser_process import stop_parsers
from rag_pipeline.loading.sources import Rejected, Source

_MAX_WAITING = 64
_MAX_BYTES = 64_000_000
"""Maximum raw bytes of parsed documents that wait for a slow one; at most `_MAX_WAITING`."""

T = TypeVar("T")
ParsedSource = tuple[Source, T, Document | DocumentError]
"""A source, its companion value, and its document or the error."""


class _Begun(NamedTuple):
    source: Source
    came_with: object
    future: "Future[Document]"
    n_bytes: int


def load_all(
    sources: Iterable[tuple[Source, T]], processes: int
) -> Generator[ParsedSource[T], None, None]:
    """Load documents in up to `processes` threads; yield them in the order of the sources.

    The bytes of a source are read before the next source is taken: the copy of a bucket's object
    exists only until then.
    """
    begun: deque[_Begun] = deque()
    finished = False
    with ThreadPoolExecutor(processes, "load") as threads:
        try:
            for source, came_with in sources:
                begun.append(_begin(threads, source, came_with))
                while len(begun) > _MAX_WAITING or sum(b.n_bytes for b in begun) > _MAX_BYTES:
                    yield _ended(begun.popleft())
            while begun:
                yield _ended(begun.popleft())
            finished = True
        finally:
            if not finished:  # no caller waits for the remaining documents
                threads.shutdown(wait=False, cancel_futures=True)
                stop_parsers()


def _begin(threads: ThreadPoolExecutor, source: Source, came_with: T) -> _Begun:
    try:
        if isinstance(source, Rejected):
            raise source.error()
        raw = source.read()
    except DocumentError as error:
        failed: Future[Document] = Future()
        failed.set_exception(error)
        return _Begun(source, came_with, failed, 0)
    future = threads.submit(copy_context().run, source.parse, raw)
    return _Begun(source, came_with, future, len(raw))


def _ended(one: _Begun) -> ParsedSource[T]:
    try:
        return one.source, one.came_with, one.future.result()  # type: ignore[return-value]
    except DocumentError as error:
        return one.source, one.came_with, error  # type: ignore[return-value]
