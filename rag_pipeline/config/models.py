"""What models promise: embedders and chats, and the settings that open them.

The vendors stand in `models.providers`, each with its settings, limits and clients.
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
"""Offsets of a text's tokens, ascending; a character of several tokens is there as often."""

_TOKEN = re.compile(r"[^\W\u0e00-\uffff]{1,4}|[^\s]")
"""What is taken for a token: four letters of an alphabet, or one other character."""


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
    """What a chat model answered; `cut` says why it ends before its end, "" of a whole one.

    `length` is the room that it had for tokens, `content_filter` the provider's filter.
    """

    text: str
    usage: Usage
    cut: str = ""


class Chat(Protocol):
    """A chat model; one call at a time, many of them concurrently."""

    identity: str
    """Provider, model and parameters: whatever changes the answers. Part of each call's key."""
    max_concurrency: int

    async def complete(self, messages: Messages, schema: Schema | None) -> Completion:
        """Answer messages, as JSON of a schema where one is given; raise ProviderError."""

    async def close(self) -> None:
        """Close the connections of the running event loop."""


class EmbeddingSettings(Settings):
    """A model that turns texts into vectors."""

    prices: ClassVar[Mapping[str, Any]] = {}
    """A vendor's entry of the prices file; `{"date": …, "models": {"*": {}}}` is free."""
    provider: str

    @property
    def keeps_tokens(self) -> bool:
        """Return whether its index holds token vectors; only a TokenEmbedder has them."""
        return False

    @property
    def window(self) -> int | None:
        """Return how many tokens of a text the model reads; None where that is not known here."""
        return None

    def token_starts(self, text: str) -> TokenStarts:
        """Return where each token starts, ascending; an estimate where no tokenizer is here.

        The estimate has rather too many than too few: prose has 4 to 5 characters a token, Chinese
        and Japanese at most about one token a character.
        """
        return np.array([found.start() for found in _TOKEN.finditer(text)], np.int64)

    @abstractmethod
    def open(self) -> Embedder:
        """Return the model, a LocalEmbedder or a RemoteEmbedder; called once per process.

        Raises ConfigError or ProviderError where it can't be asked.
        """


class ChatSettings(Settings):
    """A chat model; `batch` sends calls through the vendor's batches, if it has them."""

    not_fingerprinted = frozenset({"batch", "batch_poll_seconds"})
    prices: ClassVar[Mapping[str, Any]] = {}
    """A vendor's entry of the prices file; `{"date": …, "models": {"*": {}}}` is free."""
    provider: str
    model: str = Field(min_length=1)
    max_output_tokens: int = Field(default=1024, ge=1)
    context_window: int = Field(default=128_000, ge=256)
    batch: bool = False
    batch_poll_seconds: float = Field(default=30.0, ge=0)

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return provider, model and parameters: whatever changes the answers."""

    def within(self, seconds: float, patience: float) -> Self:
        """Return the settings for a caller who waits: a call and its repetitions end by then."""
        return self

    @abstractmethod
    def open(self) -> Chat:
        """Return a client for one event loop; raise ProviderError where it can't be asked."""


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
