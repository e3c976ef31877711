"""Define base classes of models that run in this process.

A subclass adds its settings and one method. The base classes handle batches, call keys, budget and
ledger.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from threading import Lock
from typing import Any, ClassVar

from pydantic import Field

from rag_pipeline.calls import costs
from rag_pipeline.calls.grouping import groups
from rag_pipeline.config import ChatSettings, EmbeddingSettings, Settings, fingerprint
from rag_pipeline.config.models import Completion, InputType
from rag_pipeline.config.rerankers import ModelReranker, RerankLimits
from rag_pipeline.datamodels import Messages, Schema, Vectors
from rag_pipeline.models.providers.remote import read_vectors


class LocalEmbedding(EmbeddingSettings):
    """An embedding model that runs in this process. Its vectors have `dimensions` numbers."""

    texts_at_once: ClassVar[int] = 64
    dimensions: int = Field(ge=1)

    @abstractmethod
    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        """Return one row per text, of any norm above 0. One thread at a time calls this method."""

    def open(self) -> "_LocalEmbedder":
        """Return an embedder that runs this model."""
        return _LocalEmbedder(self)


class LocalChat(ChatSettings):
    """A chat model that runs in this process."""

    not_fingerprinted = ChatSettings.not_fingerprinted | {"context_window"}
    max_concurrency: ClassVar[int] = 1
    """Maximum number of concurrent answers, each in its own thread."""

    @property
    def identity(self) -> str:
        """Return the provider and a hash of the settings."""
        return _identity(self.provider, self)

    @abstractmethod
    def answer(self, messages: Messages, schema: Schema | None) -> Completion:
        """Return the reply, as JSON if a schema is given. Raise ProviderError without a reply."""

    def open(self) -> "_LocalChat":
        """Return a client that calls `answer`."""
        return _LocalChat(self)


class LocalReranker(ModelReranker):
    """A reranker whose model runs in this process."""

    @abstractmethod
    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return one score per passage, in order. One thread at a time calls this method."""

    def open(self) -> "_LocalScorer":
        """Return a scorer that runs this model."""
        return _LocalScorer(self)


class _LocalEmbedder:
    def __init__(self, settings: LocalEmbedding) -> None:
        self._settings = settings
        self._lock = Lock()
        self.dimension = settings.dimensions
        self.identity = _identity(settings.provider, settings)

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        return groups([1] * len(texts), self._settings.texts_at_once, None)

    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        settings = self._settings
        with _charged("embedding", settings.provider, settings.prices, texts), self._lock:
            rows = settings.embed(texts, input_type)
        return read_vectors(list(rows), len(texts), self.dimension, self._settings.provider)


class _LocalChat:
    def __init__(self, settings: LocalChat) -> None:
        self._settings = settings
        self.identity = settings.identity
        self.max_concurrency = settings.max_concurrency

    async def complete(self, messages: Messages, schema: Schema | None) -> Completion:
        settings = self._settings
        expected, most = costs.request_tokens(messages, schema, settings.max_output_tokens)
        async with costs.paying("chat", settings.provider, settings.model, expected, most):
            made = await asyncio.to_thread(settings.answer, messages, schema)
            costs.record("chat", settings.provider, settings.model, **asdict(made.usage))
        return made

    async def close(self) -> None:
        """Do nothing, because there are no connections."""


class _LocalScorer:
    limits = RerankLimits(passages=1000, pair_tokens=None)
    truncate = True  # `score` handles long passages.

    def __init__(self, settings: LocalReranker) -> None:
        self._settings = settings
        self._lock = Lock()
        self.identity = _identity(settings.method, settings)

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        settings = self._settings
        with _charged("rerank", settings.method, settings.prices, [query, *passages]), self._lock:
            return [float(score) for score in settings.score(query, passages)]


@contextmanager
def _charged(
    kind: costs.CallKind, name: str, prices: Mapping[str, Any], texts: Sequence[str]
) -> Iterator[None]:
    """Charge the estimated tokens of the call inside the block, if the model has a price."""
    paid = any(prices.get("models", {}).values())
    if paid:
        costs.require_budget(name, name)
    yield
    if paid:
        costs.record(kind, name, name, input_tokens=sum(map(costs.estimate_tokens, texts)))


def _identity(name: str, settings: Settings) -> str:
    """Return a name and a hash of all settings that change results."""
    return f"{name}:{fingerprint(settings)}"
