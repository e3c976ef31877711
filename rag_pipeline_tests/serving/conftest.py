import threading

import pytest
import uvicorn

from rag_pipeline.assistant import open_assistant
from rag_pipeline.serving.app import build_app
from rag_pipeline.serving.connections import listening
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline_tests.assistant.conftest import released  # noqa: F401
from rag_pipeline_tests.orchestration.conftest import free_port


class Running(uvicorn.Server):
    """A server in a thread of the test's process."""

    def __init__(self, app, settings):
        self.port = settings.port
        super().__init__(listening(app, settings))
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        while not self.started and self.thread.is_alive():
            self.thread.join(0.01)
        return self

    def __exit__(self, *error):
        self.should_exit = True
        self.thread.join()


@pytest.fixture
def own(released):  # noqa: F811
    return open_assistant([released])


@pytest.fixture
def serving(own):
    """Return a function that starts a server with settings; all are stopped at the end."""
    running = []

    def start(**settings):
        chosen = ServerSettings(port=free_port(), **settings)
        server = Running(build_app(own, chosen), chosen)
        running.append(server.__enter__())
        return server

    yield start
    for server in running:
        server.__exit__()
