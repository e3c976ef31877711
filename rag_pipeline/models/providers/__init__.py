"""One file per vendor or local model; each turns inputs into what the model answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from rag_pipeline.config import (
    ChatSettings,
    CohereReranker,
    EmbeddingSettings,
    FlashRankReranker,
    JinaReranker,
    VoyageReranker,
)
from rag_pipeline.config.models import Chat as Chat
from rag_pipeline.config.models import Completion as Completion
from rag_pipeline.config.models import Embedder as Embedder
from rag_pipeline.config.models import EmbedRequest as EmbedRequest
from rag_pipeline.config.models import InputType as InputType
from rag_pipeline.config.models import LocalEmbedder as LocalEmbedder
from rag_pipeline.config.models import RemoteEmbedder as RemoteEmbedder
from rag_pipeline.config.models import TokenEmbedder as TokenEmbedder
from rag_pipeline.config.models import Tokens as Tokens
from rag_pipeline.datamodels import Usage as Usage
from rag_pipeline.datamodels import Vectors as Vectors
from rag_pipeline.models.providers.batching import Batches
from rag_pipeline.models.providers.limits import RerankLimits


@runtime_checkable
class BatchedChat(Chat, Protocol):
    """A chat model that also answers many requests as one file, at a lower price."""

    def request(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the body of a request, to be sent in a batch."""

    def read_batched(self, body: Mapping[str, Any], call_id: str) -> Completion:
        """Return the answer to a request that went in a batch; raise ProviderError."""

    def batches(self) -> Batches:
        """Return the batches of the account."""


def chat_identity(settings: ChatSettings) -> str:
    """Return provider, model and parameters: whatever changes the answers."""
    return settings.identity


def open_chat(settings: ChatSettings) -> Chat:
    """Return a client of a chat model, for one event loop."""
    return settings.open()


RerankRequest = Callable[[str, list[str]], Awaitable[tuple[list[float], Usage]]]
"""From a query and passages to a score for each, in order."""


class Scorer(Protocol):
    """A model that scores how well passages answer a query."""

    limits: RerankLimits
    truncate: bool

    @property
    def identity(self) -> str:
        """Provider, model and parameters: whatever changes the scores. Part of each call's key."""


@runtime_checkable
class LocalScorer(Scorer, Protocol):
    """A scorer of this process."""

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return the passages' scores."""


@runtime_checkable
class RemoteScorer(Scorer, Protocol):
    """A scorer behind a network, of which many requests are made at a time."""

    max_concurrency: int

    def connect(self) -> AbstractAsyncContextManager[RerankRequest]:
        """Open the connections of the running event loop; what it gives scores one request."""


@lru_cache(maxsize=8)
def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """Return the embedder of a variant; loaded once per process."""
    return settings.open()


@lru_cache(maxsize=8)
def open_scorer(
    settings: VoyageReranker | CohereReranker | JinaReranker | FlashRankReranker,
) -> Scorer:
    """Return the scorer of a reranker; loaded once per process."""
    if isinstance(settings, VoyageReranker):
        from rag_pipeline.models.providers.voyage import VoyageScorer

        return VoyageScorer(settings)
    if isinstance(settings, FlashRankReranker):
        from rag_pipeline.models.providers.flashrank_models import FlashRankScorer

        return FlashRankScorer(settings)
    from rag_pipeline.models.providers.http_rerank import HTTPScorer

    return HTTPScorer(settings)
