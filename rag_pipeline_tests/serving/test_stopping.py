"""A signal to its process stops a server."""

import http.client
import os
import signal
import socket
import threading
import time
from contextlib import closing

import pytest

from rag_pipeline.errors import ConfigError
from rag_pipeline.serving.server import serve_http
from rag_pipeline.serving.settings import ServerSettings, check_address
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.servers import free_port

SERVER = """
import asyncio, sys, time
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from rag_pipeline.serving.server import StoppableServer, listening
from rag_pipeline.serving.guards import Guards
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline.serving.turns import Turns
port, seconds, bound = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
async def slow(request):
    print("asked", flush=True)
    await asyncio.to_thread(time.sleep, seconds)
    return PlainTextResponse("done")
settings = ServerSettings(port=port, stop_seconds=bound)
app = Guards(Starlette(routes=[Route("/", slow, methods=["POST"])]), settings, Turns(8, 600.0))
StoppableServer(listening(app, settings)).run()
print("ended", flush=True)
import os
sys.stdout.flush()
os._exit(0)
"""
LINE = "listening on http://127.0.0.1:{}; Ctrl-C stops\n"
LINE += "stopping: open requests may finish within {} s; Ctrl-C stops immediately\n"


class Asked(threading.Thread):
    """One request, sent as soon as the server listens."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port, self.reply = port, b""
        self.start()

    def run(self) -> None:
        while not self.reply:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
            try:
                with closing(connection):
                    connection.request("POST", "/")
                    self.reply = connection.getresponse().read()
            except ConnectionRefusedError:
                time.sleep(0.02)
            except (OSError, http.client.HTTPException):
                self.reply = b"cut off"


@pytest.mark.parametrize(
    ("sent", "seconds", "bound", "reply"),
    [(signal.SIGINT, 0.1, 300, b"done"), (signal.SIGTERM, 60, 1, b"the server is stopping")],
)
def test_open_requests_are_finished_within_a_bound(tmp_path, sent, seconds, bound, reply):
    port = free_port()
    process = Forked(SERVER, port, seconds, bound, stderr=tmp_path / "said")
    asked = Asked(port)
    assert process.stdout.readline() == "asked\n"
    os.kill(process.pid, sent)
    assert process.stdout.readline() == "ended\n"
    asked.join()
    assert process.wait() == 0
    assert reply in asked.reply
    said = (tmp_path / "said").read_text()
    assert said.startswith(LINE.format(port, bound)) and "Traceback" not in said


def test_an_address_that_is_taken_is_told_before_anything_is_opened():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            serve_http([], ServerSettings(port=port))
    assert str(caught.value) == (
        f"--host 127.0.0.1 --port {port}: cannot listen: Address already in use; choose "
        f"another --port, or stop the process that uses this port"
    )


def test_a_host_that_is_not_known_is_told():
    with pytest.raises(ConfigError, match=r"--host no-host\.invalid --port 9003: cannot listen"):
        check_address(ServerSettings("no-host.invalid"))
