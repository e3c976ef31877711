"""Declare the interfaces of embedding and chat models. `models.providers` implements them."""

import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import CorpusFile, Settings
from rag_pipeline.datamodels import Messages, Schema, Usage, Vectors
from rag_pipeline.imports import CHATS, EMBEDDINGS, load_group

InputType = Literal["document", "query"]
TokenStarts = npt.NDArray[np.int64]
"""Ascending offsets of a text's tokens. Tokens of the same character share its offset."""

_TOKEN = re.compile(r"[^\W\u0e00-\uffff]{1,4}|[^\s]")
"""Matches an estimated token: up to four alphabetic letters or digits, or another character."""


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def identity(self) -> str:
        """Return provider, model and all parameters that change the vectors, for call keys."""

    @property
    def dimension(self) -> int:
        """Return the length of the vectors."""


@runtime_checkable
class LocalEmbedder(Embedder, Protocol):
    """An embedding model in this process, for one request at a time."""

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield groups of positions in `texts`. Each group fits into one request."""

    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        """Return the vectors of one request's texts, shape (texts, dimension)."""


EmbedRequest = Callable[[Sequence[Sequence[str]], InputType], Awaitable[tuple[Vectors, Usage]]]
"""Returns a vector for each text of the inputs, in order, and the usage."""


@runtime_checkable
class RemoteEmbedder(Embedder, Protocol):
    """An embedding model behind a network. Requests may be concurrent.

    An *input* is one text, or for a contextual model the chunks of one document.
    """

    max_concurrency: int

    def parts(self, chunks: Sequence[str]) -> list[tuple[str, ...]]:
        """Return a document's chunks as inputs."""

    def batches(self, inputs: Sequence[Sequence[str]]) -> Iterator[list[int]]:
        """Yield groups of positions in `inputs`. Each group fits into one request."""

    def connect(self) -> AbstractAsyncContextManager[EmbedRequest]:
        """Open connections for the running event loop and yield a function for one request.

        The function uses `calls.Endpoint.send` and raises ProviderError if the request fails.
        """


@dataclass(frozen=True, slots=True)
class Tokens:
    """The ids and the vectors of a text's tokens, in order."""

    ids: npt.NDArray[np.uint32]
    vectors: Vectors


@runtime_checkable
class TokenEmbedder(LocalEmbedder, Protocol):
    """An embedding model that also returns token vectors, at least one per text."""

    def embed_tokens(
        self, texts: Sequence[str], input_type: InputType
    ) -> tuple[Vectors, list[Tokens]]:
        """Return the vectors of the texts of one request, and their tokens."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A chat model's reply. `cut` is "" for a complete reply.

    `cut` is `length` if the token limit ended the reply, or `content_filter` if the provider did.
    """

    text: str
    usage: Usage
    cut: str = ""


class Chat(Protocol):
    """A client of a chat model. Calls may be concurrent."""

    identity: str
    """Provider, model and all parameters that change the replies, for call keys."""
    max_concurrency: int

    async def complete(self, messages: Messages, schema: Schema | None) -> Completion:
        """Return the reply, as JSON if there is a schema. Raise ProviderError if the call fails."""

    async def close(self) -> None:
        """Close the connections of the running event loop."""


class EmbeddingSettings(Settings):
    """The settings of a model that turns texts into vectors."""

    prices: ClassVar[Mapping[str, Any]] = {}
    """An entry of the prices file. `{"date": …, "models": {"*": {}}}` means free of charge."""
    provider: str

    @property
    def keeps_tokens(self) -> bool:
        """Return whether the index holds token vectors, which need a TokenEmbedder."""
        return False

    @property
    def window(self) -> int | None:
        """Return the maximum number of tokens that the model reads, or None if unknown."""
        return None

    def token_starts(self, text: str) -> TokenStarts:
        """Return the ascending offsets of the tokens.

        The default is a high estimate: at most 4 letters per token. English prose has 4 to 5
        characters per token. Chinese and Japanese have at most about one token per character.
        """
        return np.array([found.start() for found in _TOKEN.finditer(text)], np.int64)

    @abstractmethod
    def open(self) -> Embedder:
        """Return a LocalEmbedder or a RemoteEmbedder. Each process calls this once.

        Raise ConfigError or ProviderError if the model is unusable.
        """


class ChatSettings(Settings):
    """The settings of a chat model. If `batch` is set, calls use the vendor's batch API."""

    not_fingerprinted = frozenset({"batch", "batch_poll_seconds"})
    prices: ClassVar[Mapping[str, Any]] = {}
    """An entry of the prices file. `{"date": …, "models": {"*": {}}}` means free of charge."""
    provider: str
    model: str = Field(min_length=1)
    max_output_tokens: int = Field(default=1024, ge=1)
    context_window: int = Field(default=128_000, ge=256)
    batch: bool = False
    batch_poll_seconds: float = Field(default=30.0, ge=0)

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return provider, model and all parameters that change the replies."""

    def within(self, seconds: float, patience: float) -> Self:
        """Return settings with at most `seconds` per request and `patience` seconds of retries.

        The default ignores both limits.
        """
        return self

    @abstractmethod
    def open(self) -> Chat:
        """Return a client for one event loop. Raise ProviderError if the model is unusable."""


Embedding = Annotated[EmbeddingSettings, VariantsOf(EMBEDDINGS, "provider")]
ChatVariant = Annotated[ChatSettings, VariantsOf(CHATS, "provider")]


def packaged_embedding() -> EmbeddingSettings:
    """Return the settings of the packaged model, which needs no key and no network."""
    settings: EmbeddingSettings = load_group(EMBEDDINGS)["minilm"](provider="minilm")
    return settings


def embedding_or_packaged(config: CorpusFile, name: str | None) -> EmbeddingSettings:
    """Return a variant of `embeddings`, or the packaged model if `name` is None."""
    if name is None:
        return packaged_embedding()
    settings: EmbeddingSettings = config.section("embeddings")[name]
    return settings
