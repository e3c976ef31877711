"""The application's server in a thread of the test's process."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import uvicorn
from fastmcp import Client
from starlette.types import ASGIApp

from rag_pipeline.assistant import Assistant
from rag_pipeline.serving.app import build_app
from rag_pipeline.serving.server import listening
from rag_pipeline.serving.settings import ServerSettings, bound
from rag_pipeline_tests.testing.servers import free_port

TOOLS = ["assistant", "file_discover", "get_document", "health", "list_datasets", "search_chunks"]


class Running(uvicorn.Server):
    def __init__(
        self, app: ASGIApp, settings: ServerSettings, local: Sequence[socket.socket] = ()
    ) -> None:
        """Serve on the port, and on the sockets `local`."""
        self.port = settings.port
        self._bound = [*bound(settings), *local]
        super().__init__(listening(app, settings))
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.thread = threading.Thread(target=self.run, args=(self._bound,))
        self.thread.start()
        while not self.started and self.thread.is_alive():
            self.thread.join(0.01)
        return self

    def __exit__(self, *error: object) -> None:
        self.should_exit = True
        self.thread.join()


@contextmanager
def serving(own: Assistant, **settings: Any) -> Iterator[Running]:
    """Serve an assistant on a free port, with settings."""
    chosen = ServerSettings(port=free_port(), **{"wait_seconds": 600.0, **settings})
    with Running(build_app(own, chosen), chosen) as server:
        yield server


def call_mcp(target: Any, work: Callable[[Client[Any]], Awaitable[Any]]) -> Any:
    """Return what comes of some work with a client of an MCP server."""

    async def talk() -> Any:
        async with Client(target) as client:
            return await work(client)

    return asyncio.run(talk())
