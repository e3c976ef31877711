"""Voyage's embedding models and rerankers, by the requests of the `voyageai` SDK.

docs.voyageai.com/reference: `embeddings`, `contextualizedembeddings` and `rerank`. The SDK's own
results leave out what is needed here: the `index` of each row, and the reply's headers.
"""

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from rag_pipeline.calls import Received, unreachable
from rag_pipeline.calls.costs import Kind
from rag_pipeline.config.models import EmbedRequest, InputType
from rag_pipeline.datamodels import Usage, Vectors
from rag_pipeline.errors import TransientError
from rag_pipeline.models.providers import RerankRequest
from rag_pipeline.models.providers.limits import RERANK_LIMITS, UNKNOWN_RERANKER
from rag_pipeline.models.providers.remote import (
    RemoteEmbedding,
    RemoteReranker,
    RequestBuilder,
    Server,
    identity,
    in_order,
    pair_texts,
    pair_tokens,
    read_ranking,
    read_vectors,
)

if TYPE_CHECKING:
    from voyageai.api_resources.api_requestor import APIRequestor

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
        async with _session(server) as client:

            async def embed(
                inputs: Sequence[Sequence[str]], input_type: InputType
            ) -> tuple[Vectors, Usage]:
                fitting = [self.fit(texts) for texts in inputs]
                tokens = self.tokens(inputs)

                async def attempt() -> Received[tuple[Vectors, Usage]]:
                    async with server.paying(
                        "embedding", tokens, [t for own in fitting for t in own]
                    ):
                        return await self._attempt(client, fitting, input_type)

                return await server.endpoint.send(attempt, tokens)

            yield embed

    async def _attempt(
        self, client: "APIRequestor", inputs: list[list[str]], input_type: InputType
    ) -> Received[tuple[Vectors, Usage]]:
        server = self._server
        body: dict[str, Any] = {
            "model": self.model,
            "input_type": input_type,
            "encoding_format": "base64",
        }
        if self._asked is not None:
            body["output_dimension"] = self._asked
        texts = [text for texts in inputs for text in texts]
        if self.limits.contextual:
            path, body["inputs"] = "contextualizedembeddings", inputs
        else:
            path, body["input"], body["truncation"] = "embeddings", texts, self._truncate
        made, headers = await _post(server, client, path, body, self._timeout)
        used = _charged(server, "embedding", made)
        try:
            data = in_order(made["data"], len(inputs), server.what)
            if self.limits.contextual:
                documents = zip(data, inputs, strict=True)
                data = [
                    r for d, own in documents for r in in_order(d["data"], len(own), server.what)
                ]
            rows = [_vector(row["embedding"]) for row in data]
        except (ValueError, KeyError, TypeError) as error:
            raise TransientError(
                f"{server.what}: the reply is not a list of vectors: {str(error)[:80]}"
            ) from None
        vectors = read_vectors(rows, len(texts), self.dimension, server.what)
        self.refuse_cut(used, texts)
        return Received((vectors, used), headers, used.input_tokens or None)


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
        async with _session(server) as client:

            async def attempt(
                query: str, passages: list[str]
            ) -> Received[tuple[list[float], Usage]]:
                body = {
                    "query": query,
                    "documents": passages,
                    "model": self.model,
                    "truncation": self.truncate,
                }
                tokens, texts = pair_tokens(query, passages), pair_texts(query, passages)
                async with server.paying("rerank", tokens, texts):
                    made, headers = await _post(server, client, "rerank", body, self._timeout)
                    used = _charged(server, "rerank", made)
                try:
                    found = [(int(r["index"]), float(r["relevance_score"])) for r in made["data"]]
                except (ValueError, KeyError, TypeError) as error:
                    raise TransientError(
                        f"{server.what}: the reply is not a ranking: {str(error)[:80]}"
                    ) from None
                scores = read_ranking(found, len(passages), server.what)
                return Received((scores, used), headers, used.input_tokens or None)

            async def rerank(query: str, passages: list[str]) -> tuple[list[float], Usage]:
                return await server.endpoint.send(
                    lambda: attempt(query, passages), pair_tokens(query, passages)
                )

            yield rerank


@asynccontextmanager
async def _session(server: Server) -> AsyncIterator["APIRequestor"]:
    """Open what sends the requests of the running event loop, which share their connections."""
    import aiohttp
    import voyageai
    from voyageai.api_resources.api_requestor import APIRequestor

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        token = voyageai.aiosession.set(session)
        try:
            yield APIRequestor(  # type: ignore[no-untyped-call]
                key=server.key, base_url=server.address.rstrip("/")
            )
        finally:
            voyageai.aiosession.reset(token)


async def _post(
    server: Server, client: "APIRequestor", path: str, body: Mapping[str, Any], timeout: float
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return the JSON object of a reply, and the reply's headers; raise ProviderError."""
    import aiohttp
    from voyageai import error as voyage

    try:
        reply = await client.arequest("post", f"/{path}", params=body, request_timeout=timeout)
    except (voyage.Timeout, voyage.APIConnectionError, aiohttp.ClientError) as error:
        raise unreachable(server.what, error, server.key) from None
    except voyage.VoyageError as error:
        status = error.http_status
        if not status or status < 400:
            raise TransientError(f"{server.what}: the reply is not JSON") from None
        said = error.json_body if isinstance(error.json_body, dict) else {}
        reason = str(said.get("detail") or error.user_message or "")
        raise server.refusal(status, reason, error.headers) from None
    except (ValueError, RecursionError) as error:
        raise TransientError(f"{server.what}: the reply is not JSON: {str(error)[:80]}") from None
    if not isinstance(reply.data, dict):
        raise TransientError(
            f"{server.what}: the reply is no JSON object: {str(reply.data)[:80]!r}"
        )
    return reply.data, reply._headers


def _charged(server: Server, kind: Kind, made: Mapping[str, Any]) -> Usage:
    """Charge a reply, whatever else it says, and return what it used."""
    usage = made.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    used = Usage(tokens if isinstance(tokens, int) else 0)
    server.charge(kind, used)
    return used


def _vector(embedding: object) -> object:
    """Return the numbers of a vector, which the API packs as base64 where it is asked to."""
    if not isinstance(embedding, str):
        return embedding
    return np.frombuffer(base64.b64decode(embedding, validate=True), np.float32)
