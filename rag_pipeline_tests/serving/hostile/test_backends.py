"""Backends that an attacker names by header: no host is reached that is not allowed."""

import json
import socket

import pytest

from rag_pipeline_tests.testing.app_server import serving
from rag_pipeline_tests.testing.hostile_requests import TOKEN, tool
from rag_pipeline_tests.testing.web import web

LOOPBACK = (
    "127.0.0.1 localhost [::1] [::ffff:127.0.0.1] 2130706433 0x7f000001 0177.0.0.1 127.1 0 "
    "127.0.0.1.nip.io ip6-localhost 0.0.0.0 [::] [0:0:0:0:0:0:0:1] [::127.0.0.1] [::1%25lo] "
    "017700000001 127.000.000.001 %31%32%37.0.0.1 127.0.0.1%00.models.example"
).split()
DISGUISED = (
    "models.example:8443@127.0.0.1:{port} 127.0.0.1:{port}@models.example:8443 "
    "user:models.example:8443@127.0.0.1:{port} models.example:8443%40127.0.0.1:{port} "
    "models.example%3A8443@127.0.0.1:{port} 127.0.0.1:{port}#@models.example:8443 "
    "127.0.0.1:{port}?models.example:8443 127.0.0.1:{port}\\@models.example:8443 "
    "models.example:8443\\@127.0.0.1:{port} models.example:8443.127.0.0.1:{port} "
    "models.example.:{port} models.example:{port} models.example models.example:8444 "
    "models.example:{port}8443 models.example:8443:{port} 169.254.169.254/latest/meta-data/ "
    "metadata.google.internal/ models.example:99999 [models.example:8443"
).split()
ADDRESSES = [
    *(f"http://{host}:{{port}}" for host in (*LOOPBACK, socket.gethostname())),
    *(f"http://{place}" for place in DISGUISED),
    *("http:127.0.0.1:{port}", "http:///127.0.0.1:{port}", "//127.0.0.1:{port}"),
    *("HTTP://LOCALHOST:{port}/", "https://models.example", "file:///etc/passwd"),
    *("gopher://127.0.0.1:{port}/_GET", "ws://127.0.0.1:{port}", "ftp://127.0.0.1:{port}/"),
    *("dict://127.0.0.1:{port}/stat", "jar:http://127.0.0.1:{port}!/"),
    *("http+unix://%2Fvar%2Frun%2Fdocker.sock/", "unix:///var/run/docker.sock"),
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

    def redirect(path, body):
        status = int(path.split("/")[1])
        place = places[status % len(places)].format(inside)
        refresh = f"0; url=http://127.0.0.1:{inside}/"
        return status, {"Location": place, "Refresh": refresh}, b""

    with (
        web(redirect) as backend,
        serving(own, token=TOKEN, allowed_hosts=(backend.host,)) as server,
    ):
        yield server, backend.host


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
