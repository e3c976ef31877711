"""Settings with which uvicorn listens and stops, and time limits of a request."""

import asyncio
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from rag_pipeline.errors import ConfigError
from rag_pipeline.serving.settings import ServerSettings

_MOST_HEADER_BYTES = 65_536
_KEPT_SECONDS = 15
_CONNECTIONS = 8
"""Number of open connections for each request that may run; each holds at most one body."""


def check_address(settings: ServerSettings) -> None:
    """Raise ConfigError where the address can't be listened on, as its port is in use."""
    try:
        places = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in places:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
    except OSError as error:
        raise ConfigError(
            f"--host {settings.host} --port {settings.port}: can't listen there: {error.strerror}; "
            f"name another --port, or stop what listens on this one"
        ) from None


def listening(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """Return how an application is served: HTTP/1.1 alone, its headers bounded in size and time."""

    class InTime(_HeadersInTime):
        header_seconds = settings.body_seconds

    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=InTime,
        ws="none",
        limit_concurrency=_CONNECTIONS * settings.max_concurrency,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        timeout_keep_alive=_KEPT_SECONDS,
        timeout_graceful_shutdown=settings.stop_seconds,
        log_level="warning",
        server_header=False,
    )


class StoppableServer(uvicorn.Server):
    """Serves until SIGINT or SIGTERM, then finishes what is open for a bounded time and returns.

    A second SIGINT stops at once.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal; uvicorn would raise it again after having stopped."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the work of requests go on in threads that nobody waits for in the end."""
        asyncio.get_running_loop().set_default_executor(_NotAwaited())
        await super().startup(sockets)
        if self.started:
            host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
            sys.stderr.write(f"listening on http://{host}:{self.config.port}; Ctrl-C stops\n")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, and finish those that are open."""
        seconds = self.config.timeout_graceful_shutdown
        sys.stderr.write(
            f"stopping: open requests are finished, within {seconds:g} s; Ctrl-C stops at once\n"
        )
        await super().shutdown(sockets)


class _NotAwaited(ThreadPoolExecutor):
    """A request that has had its time may still wait for a model, which must not hold the end."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)


class _HeadersInTime(H11Protocol):
    """Closes a connection whose request line and headers take too long to come.

    uvicorn waits for ever for the first request of a connection and for the rest of a begun one;
    some thousand such connections would take all file descriptors.
    """

    header_seconds: float
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Let the clock run while a request is awaited, from when the wait began.

        Between two requests it runs from the first byte of the second; uvicorn closes what idles.
        """
        waits = self.conn.their_state is h11.IDLE
        if waits and (self.cycle is None or self.conn.trailing_data[0]):
            if self._due is None:
                self._due = self.loop.call_later(self.header_seconds, self._close)
        else:
            self._unwatch()

    def _unwatch(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _close(self) -> Any:
        self._due = None
        if not self.transport.is_closing():
            self.transport.close()
