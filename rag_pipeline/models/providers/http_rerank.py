"""Rerankers behind Cohere's and Jina's HTTP APIs, the latter also that of many own servers."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from rag_pipeline.datamodels import Usage
from rag_pipeline.models.providers.http import connected, post
from rag_pipeline.models.providers.remote import JSONReply, RemoteCrossEncoder, RemoteReranker

if TYPE_CHECKING:
    import httpx

_HOMES = {"cohere": "https://api.cohere.com/v2", "jina": "https://api.jina.ai/v1"}


class CohereReranker(RemoteReranker):
    """Cohere's rerankers (API v2)."""

    method: Literal["cohere"]
    model: str = Field(default="rerank-v3.5", min_length=1)
    api_key_env: str = "COHERE_API_KEY"

    def open(self) -> "HTTPScorer":
        """Return the client."""
        return HTTPScorer(self)


class JinaReranker(RemoteReranker):
    """Jina's rerankers, or with `base_url` a server that speaks its protocol.

    vLLM, llama.cpp and Infinity do: `base_url` is what stands before `/rerank`.
    """

    method: Literal["jina"]
    model: str = Field(default="jina-reranker-v2-base-multilingual", min_length=1)
    api_key_env: str = "JINA_API_KEY"

    def open(self) -> "HTTPScorer":
        """Return the client."""
        return HTTPScorer(self)


class HTTPScorer(RemoteCrossEncoder):
    """A cross-encoder that scores passages for a query: `POST …/rerank`."""

    rows = "results"

    def __init__(self, settings: CohereReranker | JinaReranker) -> None:
        super().__init__(settings, _HOMES[settings.method])

    def connected(self) -> AbstractAsyncContextManager["httpx.AsyncClient"]:
        """Open the connections of the running event loop."""
        return connected(self._server, self._timeout)

    async def ask(self, client: "httpx.AsyncClient", query: str, passages: list[str]) -> JSONReply:
        """Return the JSON object of a reply, and the reply's headers; raise ProviderError."""
        body: dict[str, Any] = {
            "model": self.model,
            "query": query,
            "documents": passages,
            "top_n": len(passages),
        }
        if self._server.provider == "jina":
            body["return_documents"] = False
        elif self.limits.pair_tokens:
            # Cohere cuts a passage here without a word; a longer one was refused before.
            body["max_tokens_per_doc"] = self.limits.pair_tokens
        return await post(self._server, client, "rerank", body)

    def searches(self, passages: Sequence[str]) -> int:
        """Return how many searches Cohere charges for: one for every hundred passages."""
        return -(-len(passages) // 100) if self._server.provider == "cohere" else 0

    def used(self, made: dict[str, Any]) -> Usage:
        """Return what a reply says that it is charged by: tokens (Jina) or searches (Cohere)."""
        billed = (made.get("meta") or {}).get("billed_units") or {}
        tokens = (made.get("usage") or {}).get("total_tokens", 0)
        return Usage(input_tokens=tokens, searches=billed.get("search_units", 0))
