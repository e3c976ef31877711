"""The interfaces of embedding and chat models and of their settings.

`models.providers` holds the vendors.
"""

import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_pipeline.config.plugins import CHATS, EMBEDDINGS, VariantsOf, load_group
from rag_pipeline.config.settings import CorpusFile, Settings
from rag_pipeline.datamodels import Messages, Schema, Usage, Vectors

InputType = Literal["document", "query"]
TokenStarts = npt.NDArray[np.int64]
"""Ascending offsets of a text's tokens; tokens of one character share its offset."""

_TOKEN = re.compile(r"[^\W\u0e00-\uffff]{1,4}|[^\s]")
"""An estimated token: up to four letters of an alphabet, or one other character."""


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def identity(self) -> str:
        """Provider, model and parameters: everything that changes the vectors, for call keys."""

    @property
    def dimension(self) -> int:
        """The length of the vectors."""


@runtime_checkable
class LocalEmbedder(Embedder, Protocol):
    """A model of this process; it takes one request at a time."""

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield positions of `texts` in groups within the limits of one request."""

    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        """Embed the texts of one request."""


EmbedRequest = Callable[[Sequence[Sequence[str]], InputType], Awaitable[tuple[Vectors, Usage]]]
"""From inputs to one vector per text, in order."""


@runtime_checkable
class RemoteEmbedder(Embedder, Protocol):
    """A model behind a network; it takes many concurrent requests.

    An *input* is one text, or the chunks of a document for a contextual model.
    """

    max_concurrency: int

    def parts(self, chunks: Sequence[str]) -> list[tuple[str, ...]]:
        """Return a document's chunks as inputs."""

    def batches(self, inputs: Sequence[Sequence[str]]) -> Iterator[list[int]]:
        """Yield positions of inputs in groups within the limits of one request."""

    def connect(self) -> AbstractAsyncContextManager[EmbedRequest]:
        """Open the connections of the running event loop; yield the function for one request.

        The function uses `calls.Endpoint.send` and raises ProviderError.
        """


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens in order, each with its vector."""

    ids: npt.NDArray[np.uint32]
    vectors: Vectors


@runtime_checkable
class TokenEmbedder(LocalEmbedder, Protocol):
    """A model that also returns token vectors, at least one per text."""

    def embed_tokens(
        self, texts: Sequence[str], input_type: InputType
    ) -> tuple[Vectors, list[Tokens]]:
        """Embed the texts of one request and their tokens."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A chat model's answer. `cut` is "" for a complete answer.

    Else `cut` is `length` (no room for more tokens) or `content_filter` (the provider's filter).
    """

    text: str
    usage: Usage
    cut: str = ""


class Chat(Protocol):
    """A chat model; it takes concurrent calls."""

    identity: str
    """Provider, model and parameters: everything that changes the answers, for call keys."""
    max_concurrency: int

    async def complete(self, messages: Messages, schema: Schema | None) -> Completion:
        """Answer messages, as JSON if a schema is given; raise ProviderError."""

    async def close(self) -> None:
        """Close the connections of the running event loop."""


class EmbeddingSettings(Settings):
    """A model that turns texts into vectors."""

    prices: ClassVar[Mapping[str, Any]] = {}
    """An entry of the prices file; `{"date": …, "models": {"*": {}}}` is free."""
    provider: str

    @property
    def keeps_tokens(self) -> bool:
        """Return whether the index holds token vectors, which need a TokenEmbedder."""
        return False

    @property
    def window(self) -> int | None:
        """Return the maximum number of tokens that the model reads, None if unknown."""
        return None

    def token_starts(self, text: str) -> TokenStarts:
        """Return the ascending offsets of the tokens, by default a high estimate.

        Prose has 4 to 5 characters per token; Chinese and Japanese have about one token per
        character at most.
        """
        return np.array([found.start() for found in _TOKEN.finditer(text)], np.int64)

    @abstractmethod
    def open(self) -> Embedder:
        """Return a LocalEmbedder or a RemoteEmbedder, once per process.

        Raises ConfigError or ProviderError if the model is unusable.
        """


class ChatSettings(Settings):
    """A chat model; `batch` sends calls through the vendor's batches."""

    not_fingerprinted = frozenset({"batch", "batch_poll_seconds"})
    prices: ClassVar[Mapping[str, Any]] = {}
    """An entry of the prices file; `{"date": …, "models": {"*": {}}}` is free."""
    provider: str
    model: str = Field(min_length=1)
    max_output_tokens: int = Field(default=1024, ge=1)
    context_window: int = Field(default=128_000, ge=256)
    batch: bool = False
    batch_poll_seconds: float = Field(default=30.0, ge=0)

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return provider, model and parameters: everything that changes the answers."""

    def within(self, seconds: float, patience: float) -> Self:
        """Return the settings with a timeout and a patience of at most these seconds."""
        return self

    @abstractmethod
    def open(self) -> Chat:
        """Return a client for one event loop; raise ProviderError if the model is unusable."""


Embedding = Annotated[EmbeddingSettings, VariantsOf(EMBEDDINGS, "provider")]
ChatVariant = Annotated[ChatSettings, VariantsOf(CHATS, "provider")]


def packaged_embedding() -> EmbeddingSettings:
    """Return the settings of the packaged model, which needs no key and no network."""
    settings: EmbeddingSettings = load_group(EMBEDDINGS)["minilm"](provider="minilm")
    return settings


def embedding_or_packaged(config: CorpusFile, name: str | None) -> EmbeddingSettings:
    """Return a variant of `embeddings`, the packaged model for None."""
    if name is None:
        return packaged_embedding()
    settings: EmbeddingSettings = config.section("embeddings")[name]
    return settings
