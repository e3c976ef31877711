import pytest

from rag_pipeline.assistant import open_assistant
from rag_pipeline.serving.app import build_app
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline_tests.testing.app_server import Running
from rag_pipeline_tests.testing.servers import free_port


@pytest.fixture
def own(released):
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
