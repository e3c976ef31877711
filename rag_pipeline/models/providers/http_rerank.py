"""Rerankers behind Cohere's and Jina's HTTP APIs, the latter also that of many own servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from rag_pipeline.calls import Received
from rag_pipeline.errors import TransientError
from rag_pipeline.models.providers import RerankRequest, Usage
from rag_pipeline.models.providers.http import connected, post
from rag_pipeline.models.providers.limits import RERANK_LIMITS, UNKNOWN_RERANKER
from rag_pipeline.models.providers.remote import (
    RemoteReranker,
    Server,
    identity,
    pair_texts,
    pair_tokens,
    read_ranking,
)

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


class HTTPScorer:
    """A cross-encoder that scores passages for a query: `POST …/rerank`."""

    def __init__(self, settings: CohereReranker | JinaReranker) -> None:
        self.model = settings.model
        self.limits = RERANK_LIMITS.get(settings.model, UNKNOWN_RERANKER)
        self.truncate = settings.truncate
        self.max_concurrency = settings.max_concurrency
        self._timeout = settings.timeout_seconds
        self._server = Server(settings.method, settings, settings.model, _HOMES[settings.method])
        self.identity = identity(self._server, self.model, settings.truncate)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RerankRequest]:
        """Open the connections of the running event loop."""
        server = self._server
        async with connected(server, self._timeout) as client:

            async def rerank(query: str, passages: list[str]) -> tuple[list[float], Usage]:
                tokens = pair_tokens(query, passages)
                # Cohere charges by the hundred passages.
                searches = -(-len(passages) // 100) if server.provider == "cohere" else 0

                async def attempt() -> Received[tuple[list[float], Usage]]:
                    async with server.paying(
                        "rerank", tokens, pair_texts(query, passages), searches
                    ):
                        return await self._attempt(client, query, passages)

                return await server.endpoint.send(attempt, tokens)

            yield rerank

    async def _attempt(
        self, client: "httpx.AsyncClient", query: str, passages: list[str]
    ) -> Received[tuple[list[float], Usage]]:
        server = self._server
        body: dict[str, Any] = {
            "model": self.model,
            "query": query,
            "documents": passages,
            "top_n": len(passages),
        }
        if server.provider == "jina":
            body["return_documents"] = False
        elif self.limits.pair_tokens:
            # Cohere cuts a passage here without a word; a longer one was refused before.
            body["max_tokens_per_doc"] = self.limits.pair_tokens
        made, headers = await post(server, client, "rerank", body)
        try:
            usage = _usage(made)
            server.charge("rerank", usage)
            found = [(int(r["index"]), float(r["relevance_score"])) for r in made["results"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TransientError(
                f"{server.what}: the reply is not a ranking: {str(error)[:80]}"
            ) from None
        scores = read_ranking(found, len(passages), server.what)
        return Received((scores, usage), headers, usage.input_tokens or None)


def _usage(made: dict[str, Any]) -> Usage:
    """Return what a reply says that it is charged by: tokens (Jina) or searches (Cohere)."""
    billed = (made.get("meta") or {}).get("billed_units") or {}
    tokens = (made.get("usage") or {}).get("total_tokens", 0)
    return Usage(input_tokens=int(tokens), searches=int(billed.get("search_units", 0)))
