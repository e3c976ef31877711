"""Voyage's embedding models and rerankers, through the `voyageai` SDK."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from pydantic import Field

from rag_pipeline.calls import Answer, unreachable
from rag_pipeline.config.models import EmbedRequest, InputType
from rag_pipeline.datamodels import Usage, Vectors
from rag_pipeline.errors import ProviderError, TransientError
from rag_pipeline.models.providers import RerankRequest
from rag_pipeline.models.providers.limits import RERANK_LIMITS, UNKNOWN_RERANKER
from rag_pipeline.models.providers.remote import (
    RemoteEmbedding,
    RemoteReranker,
    RequestBuilder,
    Server,
    identity,
    pair_tokens,
    read_ranking,
    read_vectors,
)

_HOME = "https://api.voyageai.com/v1"


class VoyageEmbedding(RemoteEmbedding):
    """Voyage's models, which embed documents and queries differently.

    `voyage-context-*` embed the chunks of a document together, each in the light of the others: a
    changed chunk embeds its document again. A document over the model's window is embedded in
    consecutive parts of whole chunks.
    """

    provider: Literal["voyage"]
    model: str = Field(default="voyage-3.5", min_length=1)
    api_key_env: str = "VOYAGE_API_KEY"

    def open(self) -> "VoyageEmbedder":
        """Return the model; raise ConfigError where its dimensions are not known."""
        return VoyageEmbedder(self)


class VoyageEmbedder(RequestBuilder):
    """A model that is told whether a text is a document or a query.

    A contextual one embeds the chunks of a document together.
    """

    def __init__(self, settings: VoyageEmbedding) -> None:
        super().__init__(settings)
        limits = self.limits
        self._timeout = settings.timeout_seconds
        # A length is asked for where the model has more than one.
        self._asked = self.dimension if len(limits.dimensions) > 1 else None
        self._server = Server("voyage", settings, settings.model, _HOME)
        self.identity = identity(
            self._server,
            self.model,
            self.dimension,
            limits.text_tokens if settings.truncate or limits.contextual else "whole",
        )

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[EmbedRequest]:
        """Open the connections of the running event loop."""
        server = self._server
        async with _session(server, self._timeout) as client:

            async def embed(
                inputs: Sequence[Sequence[str]], input_type: InputType
            ) -> tuple[Vectors, Usage]:
                fitting = [self.fit(texts) for texts in inputs]
                tokens = self.tokens(inputs)

                async def attempt() -> Answer[tuple[Vectors, Usage]]:
                    async with server.paying(tokens):
                        return await self._attempt(client, fitting, input_type)

                return await server.endpoint.send(attempt, tokens)

            yield embed

    async def _attempt(
        self, client: Any, inputs: list[list[str]], input_type: InputType
    ) -> Answer[tuple[Vectors, Usage]]:
        what = self._server.what
        texts = [text for texts in inputs for text in texts]
        if self.limits.contextual:
            made = await _answer(
                self._server,
                client.contextualized_embed(
                    inputs=inputs,
                    model=self.model,
                    input_type=input_type,
                    output_dimension=self._asked,
                ),
            )
            self._server.charge("embedding", Usage(made.total_tokens))
            counts = [len(result.embeddings) for result in made.results]
            if counts != [len(chunks) for chunks in inputs]:
                raise TransientError(
                    f"{what}: documents of {[len(c) for c in inputs]} chunks were sent and "
                    f"{counts} vectors came back"
                )
            rows = [vector for result in made.results for vector in result.embeddings]
        else:
            made = await _answer(
                self._server,
                client.embed(
                    texts,
                    model=self.model,
                    input_type=input_type,
                    truncation=self._truncate,
                    output_dimension=self._asked,
                ),
            )
            self._server.charge("embedding", Usage(made.total_tokens))
            rows = made.embeddings
        vectors = read_vectors(rows, len(texts), self.dimension, what)
        return Answer((vectors, Usage(made.total_tokens)), tokens=made.total_tokens)


class VoyageReranker(RemoteReranker):
    """Voyage's rerankers."""

    method: Literal["voyage"]
    model: str = Field(default="rerank-2.5", min_length=1)
    api_key_env: str = "VOYAGE_API_KEY"

    def open(self) -> "VoyageScorer":
        """Return the client."""
        return VoyageScorer(self)


class VoyageScorer:
    """A cross-encoder that scores passages for a query."""

    def __init__(self, settings: VoyageReranker) -> None:
        self.model = settings.model
        self.limits = RERANK_LIMITS.get(settings.model, UNKNOWN_RERANKER)
        self.truncate = settings.truncate
        self.max_concurrency = settings.max_concurrency
        self._timeout = settings.timeout_seconds
        self._server = Server("voyage", settings, settings.model, _HOME)
        self.identity = identity(self._server, self.model, settings.truncate)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RerankRequest]:
        """Open the connections of the running event loop."""
        server = self._server
        async with _session(server, self._timeout) as client:

            async def attempt(query: str, passages: list[str]) -> Answer[tuple[list[float], Usage]]:
                async with server.paying(pair_tokens(query, passages)):
                    made = await _answer(
                        server,
                        client.rerank(query, passages, self.model, truncation=self.truncate),
                    )
                    server.charge("rerank", Usage(made.total_tokens))
                found = [(row.index, row.relevance_score) for row in made.results]
                scores = read_ranking(found, len(passages), server.what)
                return Answer((scores, Usage(made.total_tokens)), tokens=made.total_tokens)

            async def rerank(query: str, passages: list[str]) -> tuple[list[float], Usage]:
                return await server.endpoint.send(
                    lambda: attempt(query, passages), pair_tokens(query, passages)
                )

            yield rerank


@asynccontextmanager
async def _session(server: Server, timeout: float) -> AsyncIterator[Any]:
    """Open a client whose requests share their connections."""
    import aiohttp
    import voyageai.client_async

    client = voyageai.client_async.AsyncClient(
        api_key=server.key, base_url=server.address, timeout=timeout, max_retries=0
    )
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        token = voyageai.aiosession.set(session)
        try:
            yield client
        finally:
            voyageai.aiosession.reset(token)


async def _answer(server: Server, asking: Any) -> Any:
    """Await one request of the SDK; raise what its failure means."""
    import aiohttp
    from voyageai import error as voyage

    try:
        return await asking
    except (voyage.Timeout, voyage.APIConnectionError, aiohttp.ClientError) as error:
        raise unreachable(server.what, error, server.key) from None
    except voyage.VoyageError as error:
        status = error.http_status
        if not status or status < 400:
            raise TransientError(f"{server.what}: the reply can't be read") from None
        raise server.refusal(status, _reason(error), error.headers) from None
    except (asyncio.CancelledError, TimeoutError, ProviderError):
        raise
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise TransientError(
            f"{server.what}: the reply is not what was asked for: {str(error)[:80]}"
        ) from None


def _reason(error: Any) -> str:
    body = error.json_body if isinstance(error.json_body, dict) else {}
    return str(body.get("detail") or error.user_message or "")
