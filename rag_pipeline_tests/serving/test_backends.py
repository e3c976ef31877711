from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError

from rag_pipeline.errors import InputError
from rag_pipeline.serving.backends import HeaderBackends
from rag_pipeline_tests.testing.app_server import call_mcp
from rag_pipeline_tests.testing.model_server import serving as chat_server
from rag_pipeline_tests.testing.web import web


@pytest.fixture
def outside():
    """Return a server that is a Dify dataset and a reranker."""

    def reply(path, body):
        if path.endswith("/moved/retrieve"):
            return 302, {"Location": "http://127.0.0.1:9/inside"}, b""
        if path.endswith("/retrieve"):
            texts = ["The fee is 40 euros.", "The term is two years."]
            records = [
                {"segment": {"id": str(n), "content": t, "document": {"name": f"{n}.pdf"}}}
                for n, t in enumerate(texts)
            ]
            return 200, {}, {"records": records}
        scores = [float("two" in text) for text in body["documents"]]
        found = [{"index": n, "relevance_score": s} for n, s in enumerate(scores)]
        return 200, {}, {"results": found}

    with web(reply) as server:
        yield server


def ask(url, headers, tool="search_chunks", **arguments):
    transport = StreamableHttpTransport(f"{url}/mcp", headers=headers)
    assert isinstance(Client(transport), Client)
    return call_mcp(transport, lambda client: client.call_tool(tool, arguments))


def test_headers_choose_a_dify_dataset_and_a_reranker(serving, outside, caplog):
    headers = {
        "X-RETRIEVAL-ENDPOINT": f"{outside.url}/v1",
        "X-RETRIEVAL-API-KEY": "planted-retrieval-key",
        "X-RERANK-URL": f"{outside.url}/v1/rerank",
        "X-RERANK-MODEL": "judge",
    }
    caplog.set_level("DEBUG")
    server = serving(allowed_hosts=(outside.host,))
    arguments = {"query": "How long is the term?", "dataset_info": '[{"id": "d1"}]'}
    found = ask(server.url, headers, **arguments)
    chunks = found.structured_content["result"]
    assert [c["text"] for c in chunks] == ["The term is two years.", "The fee is 40 euros."]
    *retrieved, reranked = [path for path, _ in outside.asked]
    assert set(retrieved) == {"/v1/datasets/d1/retrieve"}
    assert reranked == "/v1/rerank"
    for sent in outside.headers[: len(retrieved)]:
        assert sent["authorization"] == "Bearer planted-retrieval-key"
    files = ask(server.url, headers, "file_discover", **arguments, do_file_rerank=True)
    assert files.structured_content["result"][0]["document_name"] == "1.pdf"
    assert "planted-retrieval-key" not in caplog.text


def test_without_an_allow_list_no_backend_is_reached(serving, outside):
    with pytest.raises(ToolError, match="allows no backends"):
        ask(serving().url, {"X-RETRIEVAL-ENDPOINT": f"{outside.url}/v1"}, query="fee")
    assert outside.asked == []


def test_half_of_a_backend_is_refused(own):
    backends = HeaderBackends(["a"])
    with pytest.raises(InputError, match="X-RERANK-MODEL: required with X-RERANK-URL"):
        backends.assistant(own, {"x-rerank-url": "http://a/rerank"})
    assert backends.assistant(own, {"user-agent": "x"}) is own


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
