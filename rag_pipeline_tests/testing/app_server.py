"""The application's server in a thread of the test's process."""

import threading
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from rag_pipeline.serving.connections import listening
from rag_pipeline.serving.settings import ServerSettings


class Running(uvicorn.Server):
    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.port = settings.port
        super().__init__(listening(app, settings))
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        while not self.started and self.thread.is_alive():
            self.thread.join(0.01)
        return self

    def __exit__(self, *error: object) -> None:
        self.should_exit = True
        self.thread.join()
