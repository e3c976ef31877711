"""Backends that an attacker names by header: no host is reached that is not allowed."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rag_pipeline_tests.testing.hostile_requests import TOKEN, running, tool

ADDRESSES = [
    "http://127.0.0.1:{port}",
    "http://localhost:{port}",
    "http://[::1]:{port}",
    "http://[::ffff:127.0.0.1]:{port}",
    "http://2130706433:{port}",
    "http://0x7f000001:{port}",
    "http://0177.0.0.1:{port}",
    "http://127.1:{port}",
    "http://0:{port}",
    "http://127.0.0.1.nip.io:{port}",
    "http://ip6-localhost:{port}",
    "http://" + socket.gethostname() + ":{port}",
    "http://0.0.0.0:{port}",
    "http://[::]:{port}",
    "http://[0:0:0:0:0:0:0:1]:{port}",
    "http://[::127.0.0.1]:{port}",
    "http://[::1%25lo]:{port}",
    "http://017700000001:{port}",
    "http://127.000.000.001:{port}",
    "http://%31%32%37.0.0.1:{port}",
    "http://127.0.0.1%00.models.example:{port}",
    "http://models.example:8443@127.0.0.1:{port}",
    "http://127.0.0.1:{port}@models.example:8443",
    "http://user:models.example:8443@127.0.0.1:{port}",
    "http://models.example:8443%40127.0.0.1:{port}",
    "http://models.example%3A8443@127.0.0.1:{port}",
    "http://127.0.0.1:{port}#@models.example:8443",
    "http://127.0.0.1:{port}?models.example:8443",
    "http://127.0.0.1:{port}\\@models.example:8443",
    "http://models.example:8443\\@127.0.0.1:{port}",
    "http://models.example:8443.127.0.0.1:{port}",
    "http://models.example.:{port}",
    "http://models.example:{port}",
    "http://models.example",
    "https://models.example",
    "http://models.example:8444",
    "http://models.example:{port}8443",
    "http://models.example:8443:{port}",
    "http:127.0.0.1:{port}",
    "http:///127.0.0.1:{port}",
    "//127.0.0.1:{port}",
    "HTTP://LOCALHOST:{port}/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_GET",
    "ws://127.0.0.1:{port}",
    "ftp://127.0.0.1:{port}/",
    "dict://127.0.0.1:{port}/stat",
    "jar:http://127.0.0.1:{port}!/",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "unix:///var/run/docker.sock",
    "http://169.254.169.254/latest/meta-data/",
    "http://metadata.google.internal/",
    "http://models.example:99999",
    "http://[models.example:8443",
    "http://" + "a" * 3000,
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_header_reaches_another_host(guarded, client, inside, address):
    address = address.format(port=inside)
    for headers in (
        {"X-RETRIEVAL-ENDPOINT": address, "X-RETRIEVAL-API-KEY": "key-of-a-user"},
        {"X-RERANK-URL": address, "X-RERANK-MODEL": "m"},
        {"X-LLM-API-URL": address, "X-LLM-MODEL": "m", "X-LLM-API-KEY": "key-of-a-user"},
    ):
        arguments = {"query": "parcel", "dataset_info": "tiny"}
        made = tool(guarded, "search_chunks", arguments, client, headers)
        assert made["result"]["isError"] is True
        assert made["result"]["content"][0]["text"].startswith(next(iter(headers)))
        assert "key-of-a-user" not in json.dumps(made)


@pytest.fixture(scope="module")
def redirecting(own, inside):
    """Return a server, and the allowed backend whose every answer sends on to another host.

    The status is the first step of the backend's path, as in `/307/rerank`.
    """
    places = ["http://127.0.0.1:{}/", "//127.0.0.1:{}/", "http://[::1]:{}/", "http://0:{}/"]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            status = int(self.path.split("/")[1])
            self.send_response(status)
            self.send_header("Location", places[status % len(places)].format(inside))
            self.send_header("Refresh", f"0; url=http://127.0.0.1:{inside}/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    backend = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=backend.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    host = f"127.0.0.1:{backend.server_port}"
    with running(own, token=TOKEN, allowed_hosts=(host,)) as server:
        yield server, host
    backend.shutdown()
    thread.join()
    backend.server_close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_reaches_another_host(redirecting, client, status):
    server, host = redirecting
    address = f"http://{host}/{status}"
    asked = {"query": "How much does a parcel weigh?", "dataset_info": "tiny"}
    retrieval = {"X-RETRIEVAL-ENDPOINT": address, "X-RETRIEVAL-API-KEY": "key-of-a-user"}
    rerank = {"X-RERANK-URL": address, "X-RERANK-MODEL": "m"}
    for headers, said in (
        (retrieval, f"tiny: Dify answered {status}"),
        (rerank, f"X-RERANK-URL: the reranker answered {status}"),
    ):
        made = tool(server, "search_chunks", asked, client, headers)["result"]
        assert (made["isError"], made["content"][0]["text"]) == (True, said)
    model = {"X-LLM-API-URL": address, "X-LLM-MODEL": "m", "X-LLM-API-KEY": "key-of-a-user"}
    made = tool(server, "assistant", asked, client, model)["result"]["structuredContent"]
    assert made["answered"] and "20 kilograms" in made["answer"]
    (warning,) = made["warnings"]
    assert f"X-LLM-API-URL: the model answered {status}" in warning
    assert "key-of-a-user" not in json.dumps(made)
