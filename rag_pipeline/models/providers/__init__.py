"""One file per vendor or local model; each turns inputs into what the model answers."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rag_pipeline.config import (
    ChatModel,
    CohereReranker,
    Embedding,
    FastEmbedEmbedding,
    FlashRankReranker,
    JinaReranker,
    OpenAIEmbedding,
    VoyageEmbedding,
    VoyageReranker,
    keeps_tokens,
)
from rag_pipeline.datamodels import Usage as Usage
from rag_pipeline.datamodels import Vectors as Vectors
from rag_pipeline.models.providers.limits import RerankLimits

InputType = Literal["document", "query"]


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def identity(self) -> str:
        """Provider, model and parameters: whatever changes the vectors. Part of each call's key."""

    @property
    def dimension(self) -> int:
        """The length of the vectors."""


@runtime_checkable
class LocalEmbedder(Embedder, Protocol):
    """A model of this process, asked one request at a time."""

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the positions of `texts` in groups, each within the limits of one request."""

    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        """Embed the texts of one request."""


EmbedRequest = Callable[[Sequence[Sequence[str]], InputType], Awaitable[tuple[Vectors, Usage]]]
"""From inputs to a vector for each of their texts, in order."""


@runtime_checkable
class RemoteEmbedder(Embedder, Protocol):
    """A model behind a network, of which many requests are made at a time.

    An *input* is one text or, for a model that embeds chunks in the light of each other, the
    chunks of a document.
    """

    max_concurrency: int

    def parts(self, chunks: Sequence[str]) -> list[tuple[str, ...]]:
        """Return a document's chunks as inputs."""

    def batches(self, inputs: Sequence[Sequence[str]]) -> Iterator[list[int]]:
        """Yield the positions of inputs in groups, each within the limits of one request."""

    def connect(self) -> AbstractAsyncContextManager[EmbedRequest]:
        """Open the connections of the running event loop; what it gives embeds one request.

        It goes through `calls.Endpoint.send` and raises ProviderError.
        """


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens with a vector each, as they stand in the text."""

    ids: npt.NDArray[np.uint32]
    vectors: Vectors


@runtime_checkable
class TokenEmbedder(LocalEmbedder, Protocol):
    """A model that tells the vectors of the tokens too; each text has at least one."""

    def embed_tokens(
        self, texts: Sequence[str], input_type: InputType
    ) -> tuple[Vectors, list[Tokens]]:
        """Embed the texts of one request, and their tokens."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What a chat model answered."""

    text: str
    usage: Usage


class Chat(Protocol):
    """A chat model; one call at a time, many of them concurrently."""

    identity: str
    """Provider, model and parameters: whatever changes the answers. Part of each call's key."""
    max_concurrency: int

    async def complete(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None
    ) -> Completion:
        """Answer messages, as JSON of a schema where one is given; raise ProviderError."""

    def request(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the body of a request, to be sent in a batch."""

    def read_batched(self, body: Mapping[str, Any], call_id: str) -> Completion:
        """Return the answer to a request that went in a batch; raise ProviderError."""

    async def close(self) -> None:
        """Close the connections of the running event loop."""


def chat_identity(settings: ChatModel) -> str:
    """Return provider, model and parameters: whatever changes the answers."""
    server = settings.base_url or "api.openai.com"
    own = (settings.model, settings.temperature, settings.seed, settings.max_output_tokens)
    return ":".join(str(part) for part in ("openai", server, *own))


def open_chat(settings: ChatModel) -> Chat:
    """Return a client of a chat model, for one event loop."""
    from rag_pipeline.models.providers.openai_chat import OpenAIChat

    return OpenAIChat(settings)


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
def open_embedder(settings: Embedding) -> Embedder:
    """Return the embedder of a variant; loaded once per process."""
    if isinstance(settings, OpenAIEmbedding):
        from rag_pipeline.models.providers.openai_embedding import OpenAIEmbedder

        return OpenAIEmbedder(settings)
    if isinstance(settings, VoyageEmbedding):
        from rag_pipeline.models.providers.voyage import VoyageEmbedder

        return VoyageEmbedder(settings)
    if isinstance(settings, FastEmbedEmbedding):
        from rag_pipeline.models.providers.fastembed_models import FastEmbedEmbedder

        return FastEmbedEmbedder(settings)
    from rag_pipeline.models.providers.minilm import MiniLM, MiniLMTokens

    return MiniLMTokens() if keeps_tokens(settings) else MiniLM()


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
