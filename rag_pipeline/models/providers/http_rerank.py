"""Call rerankers over HTTP: Cohere, Jina, and other servers with Jina's protocol."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from rag_pipeline.calls import PROBE, Received
from rag_pipeline.calls.costs import ChargedTokens
from rag_pipeline.config import RemoteModel
from rag_pipeline.config.rerankers import ModelReranker, RerankRequest
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import TransientError
from rag_pipeline.models.providers.http import JSONReply, connected, post
from rag_pipeline.models.providers.limits import RERANK_LIMITS, UNKNOWN_RERANKER, TokenCounter
from rag_pipeline.models.providers.remote import Server, read_ranking

_COUNTER = TokenCounter()


class RemoteReranker(ModelReranker, RemoteModel):
    """A reranker behind an API. If `truncate` is set, passages that are too long are cut."""

    model: str
    truncate: bool = False


class HTTPScorer:
    """A cross-encoder behind `POST …/rerank`. One request scores the passages of a query."""

    rows: ClassVar[str] = "results"
    """The field of a reply with one row per passage."""

    def __init__(self, settings: RemoteReranker, home: str) -> None:
        self.model = settings.model
        self.limits = RERANK_LIMITS.get(settings.model, UNKNOWN_RERANKER)
        self.truncate = settings.truncate
        self.max_concurrency = settings.max_concurrency
        self._timeout = settings.timeout_seconds
        self._server = Server(settings.method, settings, settings.model, home)
        self.identity = self._server.identity(settings.truncate)

    def body(self, query: str, passages: list[str]) -> dict[str, Any]:
        """Return the JSON body of a request."""
        return {"model": self.model, "query": query, "documents": passages}

    def used(self, made: dict[str, Any]) -> Usage:
        """Return the charged tokens or searches of a reply."""
        billed = (made.get("meta") or {}).get("billed_units") or {}
        tokens = (made.get("usage") or {}).get("total_tokens", 0)
        return Usage(input_tokens=tokens, searches=billed.get("search_units", 0))

    def searches(self, passages: Sequence[str]) -> int:
        """Return the expected number of charged searches."""
        return 0

    def connected(self) -> AbstractAsyncContextManager[Any]:
        """Open the connections of the running event loop."""
        return connected(self._server, self._timeout)

    async def post(self, client: Any, body: Mapping[str, Any]) -> JSONReply:
        """Send a request. Raise ProviderError if it fails."""
        return await post(self._server, client, "rerank", body)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RerankRequest]:
        """Open the connections of the running event loop. Yield a function for one request."""
        server = self._server
        async with self.connected() as client:

            async def rerank(query: str, passages: list[str]) -> tuple[list[float], Usage]:
                # The query counts with each passage.
                texts = [*[query] * len(passages), *passages]
                question, *counts = _COUNTER.count([query, *passages])
                tokens = question * len(passages) + sum(counts)
                expected = ChargedTokens(tokens, searches=self.searches(passages))

                async def attempt(
                    query: str, passages: list[str]
                ) -> Received[tuple[list[float], Usage]]:
                    async with server.paying("rerank", expected, texts):
                        made, headers = await self.post(client, self.body(query, passages))
                        scores, used = self._scores(made, len(passages))
                        return Received((scores, used), headers, used.input_tokens or None)

                send = partial(attempt, query, passages)
                return await server.endpoint.send(send, tokens, partial(attempt, PROBE, [PROBE]))

            yield rerank

    def _scores(self, made: dict[str, Any], count: int) -> tuple[list[float], Usage]:
        try:
            used = self.used(made)
            self._server.charge("rerank", used)
            found = [(int(r["index"]), float(r["relevance_score"])) for r in made[self.rows]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TransientError(
                f"{self._server.what}: the reply is not a ranking: {str(error)[:80]}"
            ) from None
        return read_ranking(found, count, self._server.what), used


class CohereReranker(RemoteReranker):
    """One of Cohere's rerankers (API v2)."""

    method: Literal["cohere"]
    model: str = Field(default="rerank-v3.5", min_length=1)
    api_key_env: str = "COHERE_API_KEY"

    def open(self) -> "_CohereScorer":
        """Return a scorer that calls the API."""
        return _CohereScorer(self, "https://api.cohere.com/v2")


class _CohereScorer(HTTPScorer):
    def body(self, query: str, passages: list[str]) -> dict[str, Any]:
        body = {**super().body(query, passages), "top_n": len(passages)}
        if self.limits.pair_tokens:
            # Cohere cuts longer passages silently, but the caller has already refused or cut them.
            body["max_tokens_per_doc"] = self.limits.pair_tokens
        return body

    def searches(self, passages: Sequence[str]) -> int:
        return -(-len(passages) // 100)  # Cohere charges one search per 100 passages


class JinaReranker(RemoteReranker):
    """One of Jina's rerankers, or a model of another server with Jina's protocol.

    vLLM, llama.cpp and Infinity are such servers. `base_url` is the address without `/rerank`.
    """

    method: Literal["jina"]
    model: str = Field(default="jina-reranker-v2-base-multilingual", min_length=1)
    api_key_env: str = "JINA_API_KEY"

    def open(self) -> "_JinaScorer":
        """Return a scorer that calls the API."""
        return _JinaScorer(self, "https://api.jina.ai/v1")


class _JinaScorer(HTTPScorer):
    def body(self, query: str, passages: list[str]) -> dict[str, Any]:
        wanted = {"top_n": len(passages), "return_documents": False}
        return {**super().body(query, passages), **wanted}
