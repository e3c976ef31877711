import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError

from rag_pipeline.errors import InputError
from rag_pipeline.serving.backends import HeaderBackends
from rag_pipeline_tests.testing.app_server import call_mcp
from rag_pipeline_tests.testing.model_server import serving as chat_server


@pytest.fixture
def outside():
    """Return a server that is a Dify dataset and a reranker, with the requests it has seen."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.path, dict(self.headers), body))
            if self.path.endswith("/moved/retrieve"):
                self.send_response(302)
                self.send_header("Location", "http://127.0.0.1:9/inside")
                self.end_headers()
                return
            if self.path.endswith("/retrieve"):
                texts = ["The fee is 40 euros.", "The term is two years."]
                records = [
                    {"segment": {"id": str(n), "content": t, "document": {"name": f"{n}.pdf"}}}
                    for n, t in enumerate(texts)
                ]
                reply: dict[str, Any] = {"records": records}
            else:
                scores = [float("two" in text) for text in body["documents"]]
                reply = {
                    "results": [{"index": n, "relevance_score": s} for n, s in enumerate(scores)]
                }
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def ask(url, headers, tool="search_chunks", **arguments):
    transport = StreamableHttpTransport(f"{url}/mcp", headers=headers)
    assert isinstance(Client(transport), Client)
    return call_mcp(transport, lambda client: client.call_tool(tool, arguments))


def test_headers_choose_a_dify_dataset_and_a_reranker(serving, outside, caplog):
    host, seen = outside
    headers = {
        "X-RETRIEVAL-ENDPOINT": f"http://{host}/v1",
        "X-RETRIEVAL-API-KEY": "planted-retrieval-key",
        "X-RERANK-URL": f"http://{host}/v1/rerank",
        "X-RERANK-MODEL": "judge",
    }
    caplog.set_level("DEBUG")
    server = serving(allowed_hosts=(host,))
    arguments = {"query": "How long is the term?", "dataset_info": '[{"id": "d1"}]'}
    found = ask(server.url, headers, **arguments)
    chunks = found.structured_content["result"]
    assert [c["text"] for c in chunks] == ["The term is two years.", "The fee is 40 euros."]
    *retrieved, reranked = [path for path, _, _ in seen]
    assert set(retrieved) == {"/v1/datasets/d1/retrieve"}
    assert reranked == "/v1/rerank"
    for _, sent, _ in seen[: len(retrieved)]:
        assert sent["Authorization"] == "Bearer planted-retrieval-key"
    files = ask(server.url, headers, "file_discover", **arguments, do_file_rerank=True)
    assert files.structured_content["result"][0]["document_name"] == "1.pdf"
    assert "planted-retrieval-key" not in caplog.text


def test_without_an_allow_list_no_backend_is_reached(serving, outside):
    host, seen = outside
    with pytest.raises(ToolError, match="allows no backends"):
        ask(serving().url, {"X-RETRIEVAL-ENDPOINT": f"http://{host}/v1"}, query="fee")
    assert seen == []


def test_a_redirect_is_not_followed(serving, outside):
    host, seen = outside
    server = serving(allowed_hosts=(host,))
    with pytest.raises(ToolError, match="Dify answered 302"):
        headers = {"X-RETRIEVAL-ENDPOINT": f"http://{host}/v1"}
        ask(server.url, headers, query="fee", dataset_info="moved")
    assert len(seen) == 1


def test_half_of_a_backend_is_refused(own):
    backends = HeaderBackends(own, ["a"])
    with pytest.raises(InputError, match="X-RERANK-MODEL: missing beside X-RERANK-URL"):
        backends.assistant({"x-rerank-url": "http://a/rerank"})
    assert backends.assistant({"user-agent": "x"}) is own


def test_headers_choose_a_model_whose_key_is_kept_nowhere(serving, tmp_path, caplog, released):
    caplog.set_level("DEBUG")
    with chat_server(lambda body: "It is 180 euros [1].") as chat:
        host = chat.url.removeprefix("http://").removesuffix("/v1")
        headers = {
            "X-LLM-API-URL": chat.url,
            "X-LLM-MODEL": "theirs",
            "X-LLM-API-KEY": "planted-model-key",
        }
        server = serving(allowed_hosts=(host,))
        made = ask(server.url, headers, "assistant", query="How expensive may a hotel be?")
    assert made.structured_content["answered"]
    assert {request["model"] for request in chat.bodies} == {"theirs"}
    sent = {name.lower(): value for name, value in chat.requests[0].headers.items()}
    assert sent["authorization"] == "Bearer planted-model-key"
    assert "planted-model-key" not in caplog.text + str(made.structured_content)
    store = Path(released.config.store_url)
    written = (f.read_bytes() for f in store.rglob("*") if f.is_file())
    assert not any(b"planted-model-key" in content for content in written)
