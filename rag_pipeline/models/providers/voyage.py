"""Call Voyage's embedding models and rerankers with the requests of the `voyageai` SDK.

See docs.voyageai.com/reference. The SDK's own results lack each row's `index` and the headers.
"""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_pipeline.calls import LONGEST_TIMEOUT, unreachable
from rag_pipeline.config.models import InputType
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import TransientError
from rag_pipeline.models.providers.http import (
    MOST_TEXT_BYTES,
    MOST_VECTOR_BYTES,
    JSONReply,
    check_redirect,
    read,
)
from rag_pipeline.models.providers.http_rerank import HTTPScorer, RemoteReranker
from rag_pipeline.models.providers.remote import (
    RemoteEmbedding,
    RequestBuilder,
    Server,
    VectorsReply,
    in_order,
)

if TYPE_CHECKING:
    from voyageai.api_resources.api_requestor import APIRequestor

_HOME = "https://api.voyageai.com/v1"


class VoyageEmbedding(RemoteEmbedding):
    """One of Voyage's embedding models, which embed documents and queries differently.

    The models `voyage-context-*` embed the chunks of a document together. If one chunk changes, the
    whole document is embedded again. A document over the model's window is embedded in parts of
    whole chunks.
    """

    requires: ClassVar[Mapping[str, str]] = {"voyageai": "voyage"}
    provider: Literal["voyage"]
    model: str = Field(default="voyage-3.5", min_length=1)
    api_key_env: str = "VOYAGE_API_KEY"

    def open(self) -> "_VoyageEmbedder":
        """Return the model. Raise ConfigError if its dimensions are not known."""
        return _VoyageEmbedder(self)


class VoyageReranker(RemoteReranker):
    """One of Voyage's rerankers."""

    requires: ClassVar[Mapping[str, str]] = {"voyageai": "voyage"}
    method: Literal["voyage"]
    model: str = Field(default="rerank-2.5", min_length=1)
    api_key_env: str = "VOYAGE_API_KEY"

    def open(self) -> "_VoyageScorer":
        """Return a scorer that calls the API."""
        return _VoyageScorer(self, _HOME)


class _VoyageEmbedder(RequestBuilder):
    def __init__(self, settings: VoyageEmbedding) -> None:
        super().__init__(settings, _HOME)
        limits = self.limits
        # Only models with several lengths accept `output_dimension`.
        self._output_dimension = self.dimension if len(limits.dimensions) > 1 else None
        cut = limits.text_tokens if settings.truncate or limits.contextual else "whole"
        self.identity = self._server.identity(self.dimension, cut)

    def connected(self) -> AbstractAsyncContextManager["APIRequestor"]:
        return _session(self._server, MOST_VECTOR_BYTES)

    async def ask(
        self, client: "APIRequestor", inputs: list[list[str]], input_type: InputType
    ) -> VectorsReply:
        server = self._server
        body: dict[str, Any] = {
            "model": self.model,
            "input_type": input_type,
            "encoding_format": "base64",
        }
        if self._output_dimension is not None:
            body["output_dimension"] = self._output_dimension
        if self.limits.contextual:
            path, body["inputs"] = "contextualizedembeddings", inputs
        else:
            path, body["truncation"] = "embeddings", self._truncate
            body["input"] = [text for texts in inputs for text in texts]
        made, headers = await _post(server, client, path, body, self._timeout)
        used = _used(made)
        server.charge("embedding", used)  # even if the vectors are unusable
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
        return rows, used, headers


class _VoyageScorer(HTTPScorer):
    rows = "data"

    def connected(self) -> AbstractAsyncContextManager["APIRequestor"]:
        return _session(self._server, MOST_TEXT_BYTES)

    async def post(self, client: "APIRequestor", body: Mapping[str, Any]) -> JSONReply:
        return await _post(self._server, client, "rerank", body, self._timeout)

    def body(self, query: str, passages: list[str]) -> dict[str, Any]:
        return {**super().body(query, passages), "truncation": self.truncate}

    def used(self, made: dict[str, Any]) -> Usage:
        return _used(made)


@asynccontextmanager
async def _session(server: Server, most_bytes: int) -> AsyncIterator["APIRequestor"]:
    """Open the requestor of the running event loop. Its requests share connections."""
    import aiohttp
    import voyageai
    from voyageai.api_resources.api_requestor import APIRequestor

    async def stay(_: object, context: object, sent: aiohttp.TraceRequestRedirectParams) -> None:
        headers = sent.response.headers
        there = headers.get("Location") or headers.get("URI") or ""
        check_redirect(sent.response.status, str(sent.url), there)

    class Bounded(aiohttp.ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                self._body = await read(self.content.iter_any(), most_bytes, self.host)
            return await super().read()

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(stay)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, trace_configs=[trace], response_class=Bounded
    ) as session:
        token = voyageai.aiosession.set(session)
        try:
            yield APIRequestor(  # type: ignore[no-untyped-call]
                key=server.key, base_url=server.address.rstrip("/")
            )
        finally:
            voyageai.aiosession.reset(token)


async def _post(
    server: Server, client: "APIRequestor", path: str, body: Mapping[str, Any], timeout: float
) -> JSONReply:
    """Return the JSON object and the headers of a reply. Raise ProviderError if it fails."""
    import aiohttp
    from voyageai import error as voyage

    try:
        reply = await client.arequest(
            "post", f"/{path}", params=body, request_timeout=(timeout, LONGEST_TIMEOUT * timeout)
        )
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
            f"{server.what}: the reply is not a JSON object: {str(reply.data)[:80]!r}"
        )
    return reply.data, reply._headers


def _used(made: dict[str, Any]) -> Usage:
    usage = made.get("usage")
    return Usage(usage.get("total_tokens", 0) if isinstance(usage, dict) else 0)


def _vector(embedding: object) -> object:
    if not isinstance(embedding, str):
        return embedding
    return np.frombuffer(base64.b64decode(embedding, validate=True), np.float32)
