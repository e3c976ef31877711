"""Serve corpora over HTTP, or over standard input and output. Define how uvicorn listens."""

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import FrameType
from typing import Any

import h11
import pyarrow as pa
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from rag_pipeline.assistant import Assistant, open_assistant
from rag_pipeline.calls.telemetry import export
from rag_pipeline.corpus import Corpus
from rag_pipeline.memory import release_memory
from rag_pipeline.search import deadlines
from rag_pipeline.serving.app import build_app
from rag_pipeline.serving.guards import log_to_stderr
from rag_pipeline.serving.local import listening_to_user
from rag_pipeline.serving.question_log import QuestionLog
from rag_pipeline.serving.settings import ServerSettings, bound, check_address
from rag_pipeline.serving.tools import build_mcp
from rag_pipeline.serving.workers import serve_by_workers

_MOST_HEADER_BYTES = 65_536
_KEPT_SECONDS = 15
_MOST_THREADS = 256
"""Maximum number of threads. Threads beyond the `Turns` finish requests that timed out."""
_CONNECTIONS = 4
"""Maximum open connections, as a multiple of `max_concurrency`."""


def serve_http(corpora: Sequence[Corpus], settings: ServerSettings) -> None:
    """Serve by HTTP until SIGINT or SIGTERM, then finish open requests within `stop_seconds`.

    Each request writes a line of JSON to standard error. Raise ConfigError for an unusable address.
    """
    check_address(settings)
    with listening_to_user(corpora) as local:
        if settings.workers > 1:
            build_app(open_assistant(corpora), settings)  # raises errors once for all workers
            serve_by_workers(corpora, settings, local)
        else:
            serve_here(corpora, settings, local)


def serve_here(
    corpora: Sequence[Corpus], settings: ServerSettings, local: Sequence[socket.socket] = ()
) -> None:
    """Serve by HTTP in this process. Also listen on the sockets `local`."""
    log_to_stderr()
    export()
    own = _for_many_searches(corpora)
    app = build_app(own, settings)
    own.warm(lambda: bool(app.state.opened.closed))
    release_memory()  # the opening of models leaves 100 MB of free memory
    server = StoppableServer(listening(app, settings), settings.drain_seconds)
    server.run([*bound(settings), *local])


def _for_many_searches(corpora: Sequence[Corpus]) -> Assistant:
    pa.set_memory_pool(pa.system_memory_pool())  # mimalloc would keep 8 MB for each thread
    for corpus in corpora:
        corpus.is_server = True
    return open_assistant(corpora)


def serve_stdio(corpora: Sequence[Corpus], settings: ServerSettings) -> None:
    """Serve one client by standard input and output."""
    with suppress(KeyboardInterrupt):
        log = QuestionLog(settings.log_questions)
        own = _for_many_searches(corpora)
        build_mcp(own, log=log, caller=settings.caller).run("stdio", show_banner=False)


def listening(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """Return uvicorn's settings. They allow only HTTP/1.1 and limit each wait for a client."""

    class Bounded(_BoundedConnection):
        client_seconds = settings.body_seconds

    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=Bounded,
        ws="none",
        limit_concurrency=_CONNECTIONS * settings.max_concurrency,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        timeout_keep_alive=_KEPT_SECONDS,
        timeout_graceful_shutdown=settings.stop_seconds,
        log_level="warning",
        server_header=False,
    )


class StoppableServer(uvicorn.Server):
    """A server that finishes open requests within a limited time after SIGINT or SIGTERM.

    After the signal, the server still accepts requests for `drain_seconds`. `/ready` then tells
    load balancers to use other servers. A second SIGINT stops the server immediately.
    """

    def __init__(self, config: uvicorn.Config, drain_seconds: float = 0.0) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Record the signal. uvicorn's own method would raise the signal again after the stop."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server with threads that do not delay the end of the process."""
        asyncio.get_running_loop().set_default_executor(_NotAwaited(_MOST_THREADS))
        await super().startup(sockets)
        if self.started:
            host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
            sys.stderr.write(f"listening on http://{host}:{self.config.port}; Ctrl-C stops\n")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let `/ready` answer 503, wait for `drain_seconds`, and finish the open requests."""
        if (state := getattr(self.config.app, "state", None)) is not None:
            state.is_stopping = True
        until = time.monotonic() + self._drain_seconds
        while time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.05)
        seconds = self.config.timeout_graceful_shutdown
        sys.stderr.write(
            f"stopping: open requests may finish within {seconds:g} s; Ctrl-C stops immediately\n"
        )
        await super().shutdown(sockets)


class _NotAwaited(ThreadPoolExecutor):
    """Threads that do not delay the end of the process, even while they wait for a model."""

    def submit(self, *call: Any, **named: Any) -> Future[Any]:
        future = super().submit(*call, **named)
        deadlines.WORK.get([]).append(future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)


class _BoundedConnection(H11Protocol):
    """A connection that limits the waits for its client, and the number of connections.

    uvicorn itself waits without limit for the end of a request's headers, and for the client to
    read its reply. At the limit of connections, the connection with the longest silence is closed.
    So a new client can always connect.
    """

    client_seconds: float
    _heard = 0.0
    """The time of the client's last data, by the clock of the event loop."""
    _headers_due: asyncio.TimerHandle | None = None
    _reading_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # any unsent byte calls `pause_writing`
        self._heard = self.loop.time()
        most = self.config.limit_concurrency or 0
        self._make_room(self._of_this_address(), most // 2)
        self._make_room(self._open(), most - 1)  # at `most`, uvicorn answers 503
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._heard = self.loop.time()
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._stop_timing_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._time_reading()
        unread = [c for c in self._of_this_address() if c.flow.write_paused]
        self._make_room(unread, max(1, (self.config.limit_concurrency or 0) // 8))

    def resume_writing(self) -> None:
        self._stop_timing_reading()
        super().resume_writing()

    def _open(self) -> "list[_BoundedConnection]":
        return [c for c in self.connections if isinstance(c, _BoundedConnection)]

    def _of_this_address(self) -> "list[_BoundedConnection]":
        address = (self.client or ("",))[0]
        return [c for c in self._open() if (c.client or ("",))[0] == address]

    def _make_room(self, crowd: "list[_BoundedConnection]", most: int) -> None:
        """Above `most` connections, close the waiting connection with the longest silence."""
        silent = [c for c in crowd if c._waits_for_client()]
        if len(crowd) > most and silent:
            cut = min(silent, key=lambda c: c._heard)
            self.connections.discard(cut)
            cut.transport.abort()

    def _waits_for_client(self) -> bool:
        """Return whether the server waits for the client: to send a request or to read a reply."""
        asked = self.cycle
        return asked is None or asked.response_complete or asked.more_body or self.flow.write_paused

    def _time_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._reading_due = self.loop.call_later(self.client_seconds, self._check_reading, unread)

    def _check_reading(self, before: int) -> None:
        """Close the connection if the client has read none of its `before` unread bytes."""
        if self.transport.get_write_buffer_size() < before:
            self._time_reading()
        else:
            self.transport.abort()

    def _stop_timing_reading(self) -> None:
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None

    def _watch(self) -> None:
        """Limit the time from a request's first byte to the end of its headers."""
        waits = self.conn.their_state is h11.IDLE
        if waits and (self.cycle is None or self.conn.trailing_data[0]):
            if self._headers_due is None:
                self._headers_due = self.loop.call_later(self.client_seconds, self._close)
        else:
            self._unwatch()

    def _unwatch(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _close(self) -> Any:
        self._headers_due = None
        if not self.transport.is_closing():
            self.transport.close()
