"""One file per vendor or local model; each turns inputs into what the model answers."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from rag_pipeline.config import EmbeddingSettings
from rag_pipeline.config.models import Chat as Chat
from rag_pipeline.config.models import Completion as Completion
from rag_pipeline.config.models import Embedder as Embedder
from rag_pipeline.config.models import EmbedRequest as EmbedRequest
from rag_pipeline.config.models import InputType as InputType
from rag_pipeline.config.models import LocalEmbedder as LocalEmbedder
from rag_pipeline.config.models import RemoteEmbedder as RemoteEmbedder
from rag_pipeline.config.models import TokenEmbedder as TokenEmbedder
from rag_pipeline.config.models import Tokens as Tokens
from rag_pipeline.config.rerankers import LocalScorer as LocalScorer
from rag_pipeline.config.rerankers import ModelReranker
from rag_pipeline.config.rerankers import RemoteScorer as RemoteScorer
from rag_pipeline.config.rerankers import RerankRequest as RerankRequest
from rag_pipeline.config.rerankers import Scorer as Scorer
from rag_pipeline.datamodels import Messages, Schema
from rag_pipeline.datamodels import Usage as Usage
from rag_pipeline.datamodels import Vectors as Vectors
from rag_pipeline.models.providers.batching import Batches


@runtime_checkable
class BatchedChat(Chat, Protocol):
    """A chat model that also answers many requests as one file, at a lower price."""

    def request(self, messages: Messages, schema: Schema | None) -> dict[str, Any]:
        """Return the body of a request, to be sent in a batch."""

    def read_batched(self, body: Mapping[str, Any], call_id: str) -> Completion:
        """Return the answer to a request that went in a batch; raise ProviderError."""

    def batches(self) -> Batches:
        """Return the batches of the account."""


@lru_cache(maxsize=8)
def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """Return the embedder of a variant; loaded once per process."""
    return settings.open()


@lru_cache(maxsize=8)
def open_scorer(settings: ModelReranker) -> Scorer:
    """Return the scorer of a reranker; loaded once per process."""
    return settings.open()
