"""Load documents in parallel, and yield them in the order of their sources."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context

from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.parser_process import stop_parsers
from rag_pipeline.loading.sources import Rejected, Source

_MAX_WAITING = 64
_MAX_BYTES = 64_000_000
"""Maximum total size in bytes of documents that are being loaded or wait for an earlier one."""

ParsedSource = tuple[Source, Document | DocumentError]
"""A source, with its document or error."""


def load_all(sources: Iterable[Source], processes: int) -> Generator[ParsedSource, None, None]:
    """Load documents in up to `processes` threads, and yield them in the order of the sources.

    Read the bytes of a source before taking the next, because the copy of a bucket's object is then
    deleted.
    """
    started: deque[tuple[Source, Future[Document], int]] = deque()
    finished = False
    with ThreadPoolExecutor(processes, "load") as threads:
        try:
            for source in sources:
                started.append((source, *_start(threads, source)))
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


def _wait(source: Source, future: Future[Document], _: int) -> ParsedSource:
    try:
        return source, future.result()
    except DocumentError as error:
        return source, error
