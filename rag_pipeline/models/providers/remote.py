"""What the clients of all embedding and rerank APIs share: key, name, limits and refusals."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from rag_pipeline.calls import Endpoint, Received, failure_of_status, open_endpoint
from rag_pipeline.calls.costs import CallKind, ChargedTokens, paying, record
from rag_pipeline.calls.grouping import groups
from rag_pipeline.config import RemoteModel
from rag_pipeline.config.models import EmbeddingSettings, EmbedRequest, InputType
from rag_pipeline.config.rerankers import ModelReranker, RerankRequest
from rag_pipeline.datamodels import Usage, Vectors
from rag_pipeline.errors import CallsStoppedError, ProviderError, TransientError, keep_secret
from rag_pipeline.models.providers.limits import (
    RERANK_LIMITS,
    UNKNOWN_RERANKER,
    TokenCounter,
    embedding_limits,
)

_NO_SUCH_MODEL = re.compile(
    r"\bmodel\b.*\b(not found|not supported|does not exist|not exist|not available|unknown)"
    r"|\b(unknown|invalid|unsupported|no such) model\b",
    re.IGNORECASE | re.DOTALL,
)


class RemoteReranker(ModelReranker, RemoteModel):
    """A reranker behind an API; passages over its window are cut only with `truncate`."""

    model: str
    truncate: bool = False


class RemoteEmbedding(RemoteModel, EmbeddingSettings):
    """An embedding model behind an API.

    Requests stay within the limits that are known of the model (`providers/limits.py`); set
    `max_texts`, `max_request_tokens` and `max_text_tokens` for another. Tokens are counted with
    `tokenizer`, the path of a model's tokenizer.json, else estimated on the safe side. A text over
    the limit is cut only with `truncate`, else an error names it.
    """

    not_fingerprinted: ClassVar[frozenset[str]] = RemoteModel.not_fingerprinted | {
        "max_texts",
        "max_request_tokens",
    }
    model: str
    dimensions: int | None = Field(default=None, ge=1)
    truncate: bool = False
    tokenizer: str | None = None
    max_texts: int | None = Field(default=None, ge=1)
    max_request_tokens: int | None = Field(default=None, ge=1)
    max_text_tokens: int | None = Field(default=None, ge=1)


JSONReply = tuple[dict[str, Any], Mapping[str, str]]
"""The JSON object of a reply, and the reply's headers."""
VectorsReply = tuple[Sequence[object], Usage, Mapping[str, str]]
"""A reply's vectors in order, its charged use, and its headers."""

_COUNTER = TokenCounter()
_READ_AT_LEAST = 0.9
"""Least share of the tokens that a server counts if it cut none: tokenizers differ by the rest."""


class Server:
    """One model at one address, with the key that it is asked with."""

    def __init__(self, provider: str, settings: RemoteModel, model: str, home: str) -> None:
        self.provider = provider
        self.address = settings.base_url or home
        self.identity_url = settings.identity_url or home
        self.what = f"{model} at {self.address.split('://')[-1].rstrip('/')}"
        self.endpoint: Endpoint = open_endpoint(self.what, settings)
        self._settings = settings
        self._model = model

    @property
    def key(self) -> str:
        """Return the key; raise CallsStoppedError naming the variable that should hold it."""
        variable = self._settings.api_key_env
        key = os.environ.get(variable)
        keep_secret(key)
        if not key and self._settings.base_url is None:
            raise CallsStoppedError(
                f"{self._model}: the environment variable {variable} is not set; set it to your key"
            )
        return key or "none"

    def paying(
        self, kind: CallKind, tokens: int, texts: Sequence[str], searches: int = 0
    ) -> AbstractAsyncContextManager[None]:
        """Hold the budget over one request of about so many tokens; see `costs.paying`."""
        expected, address = ChargedTokens(tokens, searches=searches), self._settings.base_url
        return paying(kind, self.provider, self._model, expected, base_url=address, texts=texts)

    def charge(self, kind: CallKind, usage: Usage) -> None:
        """Note what a reply costs, whatever it says."""
        address = self._settings.base_url
        record(kind, self.provider, self._model, base_url=address, **asdict(usage))

    def refusal(self, status: int, message: str, headers: Mapping[str, str]) -> ProviderError:
        """Return the error of an HTTP reply that is none."""
        what = f"{self.what} ({self._settings.api_key_env})"
        lowered = {name.lower(): value for name, value in headers.items()}
        stops = "model" if _NO_SUCH_MODEL.search(message) else ""
        return failure_of_status(what, status, message, lowered, self.key, stops=stops)


class RequestBuilder(ABC):
    """What remote embedders share: texts, or the chunks of documents, grouped into requests."""

    def __init__(self, settings: RemoteEmbedding, home: str) -> None:
        own = settings.max_texts, settings.max_request_tokens, settings.max_text_tokens
        self.limits = embedding_limits(settings.model, *own)
        self.model = settings.model
        self.dimension = self.limits.dimension(settings.model, settings.dimensions)
        self.max_concurrency = settings.max_concurrency
        self._counter = TokenCounter(settings.tokenizer)
        self._truncate = settings.truncate
        self._timeout = settings.timeout_seconds
        self._server = Server(settings.provider, settings, settings.model, home)

    @abstractmethod
    def connected(self) -> AbstractAsyncContextManager[Any]:
        """Open the connections of the running event loop."""

    @abstractmethod
    async def ask(
        self, client: Any, inputs: list[list[str]], input_type: InputType
    ) -> VectorsReply:
        """Return a reply's vectors in order, its charged use and headers; raise ProviderError."""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[EmbedRequest]:
        """Open the connections of the running event loop."""
        server = self._server
        async with self.connected() as client:

            async def embed(
                inputs: Sequence[Sequence[str]], input_type: InputType
            ) -> tuple[Vectors, Usage]:
                fitting = [self.fit(texts) for texts in inputs]
                texts = [text for own in fitting for text in own]
                tokens = self.tokens(inputs)

                async def attempt() -> Received[tuple[Vectors, Usage]]:
                    async with server.paying("embedding", tokens, texts):
                        rows, used, headers = await self.ask(client, fitting, input_type)
                        vectors = read_vectors(rows, len(texts), self.dimension, server.what)
                        self.refuse_cut(used, texts)
                        return Received((vectors, used), headers, used.input_tokens or None)

                return await server.endpoint.send(attempt, tokens)

            yield embed

    def parts(self, chunks: Sequence[str]) -> list[tuple[str, ...]]:
        """Return a document's chunks as inputs: each alone, or as many together as are read."""
        if not self.limits.contextual:
            return [(chunk,) for chunk in chunks]
        sizes = self._sizes([(chunk,) for chunk in chunks])
        together = groups(sizes, len(chunks), self.limits.text_tokens)
        return [tuple(chunks[i] for i in group) for group in together]

    def batches(self, inputs: Sequence[Sequence[str]]) -> Iterator[list[int]]:
        """Yield positions of inputs, each group within the limits of one request."""
        return groups(self._sizes(inputs), self.limits.texts, self.limits.request_tokens)

    def fit(self, texts: Sequence[str]) -> list[str]:
        """Return texts as they may be sent; raise TextTooLongError."""
        most = self.limits.text_tokens
        return self._counter.fit(texts, self.model, most, self._truncate)

    def refuse_cut(self, used: Usage, texts: Sequence[str]) -> None:
        """Raise ProviderError where a server has read far less than the texts and was not to cut.

        Some cut what is over their window without a word. It shows in what they say they read,
        where the model's tokenizer is known.
        """
        if self._truncate or not self._counter.exact or not used.input_tokens:
            return
        sent = sum(self._counter.count(texts))
        if used.input_tokens < _READ_AT_LEAST * sent:
            raise ProviderError(
                f"{self.model}: of {sent:,} tokens the server has read {used.input_tokens:,}: it "
                f"cuts texts; set `max_text_tokens` to what it reads, or `truncate: true`"
            )

    def tokens(self, inputs: Sequence[Sequence[str]]) -> int:
        """Return about how many tokens a request has."""
        return sum(self._sizes(inputs))

    def _sizes(self, inputs: Sequence[Sequence[str]]) -> list[int]:
        flat = self.fit([text for texts in inputs for text in texts])
        counts = iter(self._counter.count(flat))
        return [sum(next(counts) for _ in texts) for texts in inputs]


class RemoteCrossEncoder(ABC):
    """What remote rerankers share: one request scores the passages of a query."""

    rows: ClassVar[str]
    """The field of a reply that holds a row for each passage."""

    def __init__(self, settings: RemoteReranker, home: str) -> None:
        self.model = settings.model
        self.limits = RERANK_LIMITS.get(settings.model, UNKNOWN_RERANKER)
        self.truncate = settings.truncate
        self.max_concurrency = settings.max_concurrency
        self._timeout = settings.timeout_seconds
        self._server = Server(settings.method, settings, settings.model, home)
        self.identity = identity(self._server, self.model, settings.truncate)

    @abstractmethod
    def connected(self) -> AbstractAsyncContextManager[Any]:
        """Open the connections of the running event loop."""

    @abstractmethod
    async def ask(self, client: Any, query: str, passages: list[str]) -> JSONReply:
        """Return the JSON object of a reply, and the reply's headers; raise ProviderError."""

    @abstractmethod
    def used(self, made: dict[str, Any]) -> Usage:
        """Return what a reply says that it is charged by."""

    def searches(self, passages: Sequence[str]) -> int:
        """Return how many searches a request is charged by beside its tokens."""
        return 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RerankRequest]:
        """Open the connections of the running event loop."""
        server = self._server
        async with self.connected() as client:

            async def rerank(query: str, passages: list[str]) -> tuple[list[float], Usage]:
                tokens, texts = pair_tokens(query, passages), pair_texts(query, passages)

                async def attempt() -> Received[tuple[list[float], Usage]]:
                    async with server.paying("rerank", tokens, texts, self.searches(passages)):
                        made, headers = await self.ask(client, query, passages)
                        scores, used = self._scores(made, len(passages))
                        return Received((scores, used), headers, used.input_tokens or None)

                return await server.endpoint.send(attempt, tokens)

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


def read_vectors(rows: Sequence[object], count: int, dimension: int, what: str) -> Vectors:
    """Return the vectors of a reply at unit length, shape (count, dimension).

    A vector that is no direction, with a value that is not finite or all of them zero, comes back
    as NaN: the others of its reply are paid for and can be used. Raises TransientError for a wrong
    count, which may be right the next time, and CallsStoppedError for a wrong dimension, which
    will not.
    """
    if len(rows) != count:
        raise TransientError(f"{what}: {count} texts were sent and {len(rows)} vectors came back")
    try:
        vectors = np.array(rows, np.float32)
    except (ValueError, TypeError):
        raise TransientError(f"{what}: the vectors are not rows of numbers") from None
    if vectors.shape != (count, dimension):
        got = vectors.shape[1] if vectors.ndim == 2 else "no"
        raise CallsStoppedError(
            f"{what}: returned vectors of {got} dimensions, the settings expect {dimension}; "
            f"set `dimensions` to what the model returns"
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit: Vectors = vectors / lengths
    unit[~np.isfinite(unit).all(axis=1)] = np.nan
    return unit


def in_order(rows: Sequence[Any], count: int, what: str) -> list[Any]:
    """Return the rows of a reply in the order of what was sent, which their `index` tells.

    Raises TransientError where it does not tell.
    """
    ordered = sorted(rows, key=lambda row: int(row["index"]))
    if len(rows) != count:
        raise TransientError(f"{what}: {count} texts were sent and {len(rows)} vectors came back")
    if [row["index"] for row in ordered] != list(range(count)):
        raise TransientError(f"{what}: the reply does not say which vector is whose")
    return ordered


def read_ranking(found: Sequence[tuple[int, float]], count: int, what: str) -> list[float]:
    """Return a reply's scores in the order of the passages; raise TransientError if not of each."""
    scores = dict(found)
    if len(found) != count or set(scores) != set(range(count)):
        raise TransientError(f"{what}: {count} passages were sent and {len(found)} scored")
    if not np.isfinite(list(scores.values())).all():
        raise ProviderError(f"{what}: returned a score that is not finite")
    return [scores[position] for position in range(count)]


def identity(server: Server, model: str, *parameters: object) -> str:
    """Return what names a model and all that changes what it answers."""
    parts = (server.provider, server.identity_url, model, *parameters)
    return ":".join(str(part) for part in parts)


def pair_texts(query: str, passages: Sequence[str]) -> list[str]:
    """Return the texts that a rerank request is charged for: the query counts with each passage."""
    return [*[query] * len(passages), *passages]


def pair_tokens(query: str, passages: Sequence[str]) -> int:
    """Return about how many tokens a rerank request has: the query counts with each passage."""
    counts = _COUNTER.count([query, *passages])
    return counts[0] * len(passages) + sum(counts[1:])
