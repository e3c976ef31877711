import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType

import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.errors import ProviderError, TextsFailedError
from rag_pipeline.models.embedding import embed
from rag_pipeline.models.providers import openai, voyage
from rag_pipeline.search.reranking.passages import RerankInput, score_passages
from rag_pipeline_tests.testing.model_calls import asked, chat, embedder, scorer

ENDLESS = 400_000_000
"""Length in bytes of a reply that nobody should read to its end."""


class Endless(ThreadingHTTPServer):
    """Answers each request with blanks, then counts the bytes that a client took."""

    taken = 0
    cut = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Endless

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        try:
            for _ in range(ENDLESS // 1_000_000):
                self.wfile.write(b" " * 1_000_000)
                self.server.taken += 1_000_000
        except OSError:
            self.server.cut.set()

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def endless() -> Iterator[Endless]:
    with Endless(("127.0.0.1", 0), Handler) as server:
        server.cut = threading.Event()
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(server: Endless) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


def is_cut(server: Endless) -> bool:
    return server.cut.wait(300) and server.taken < ENDLESS / 2


def test_an_endless_reply_of_a_chat_model_is_not_read_to_its_end(
    endless: Endless, cache: CallCache
) -> None:
    (answer,) = asked(["hello"], chat(address(endless)), cache)
    assert answer == "failed: 127.0.0.1: the reply is longer than 16,000,000 bytes"
    assert is_cut(endless)


@pytest.mark.parametrize("method", ["jina", "voyage"])
def test_an_endless_reply_of_a_reranker_is_not_read_to_its_end(
    endless: Endless, cache: CallCache, method: str
) -> None:
    queries = [RerankInput("private", ("a", "b"))]
    (scores,) = score_passages(queries, scorer(address(endless), method=method), cache)
    assert isinstance(scores, ProviderError)
    assert "the reply is longer than" in str(scores)
    assert is_cut(endless)


@pytest.mark.parametrize("provider", [openai, voyage])
def test_an_endless_reply_with_vectors_is_not_read_to_its_end(
    endless: Endless, cache: CallCache, monkeypatch: pytest.MonkeyPatch, provider: ModuleType
) -> None:
    monkeypatch.setattr(provider, "MOST_VECTOR_BYTES", 3_000_000)
    name = provider.__name__.rpartition(".")[2]
    with pytest.raises(TextsFailedError, match="the reply is longer than 3,000,000 bytes"):
        embed(["private"], embedder(address(endless), provider=name), cache)
    assert is_cut(endless)
