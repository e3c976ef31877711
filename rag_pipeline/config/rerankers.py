"""The interface of a reranker; `search.reranking` and `models.providers` hold the methods."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    runtime_checkable,
)

from pydantic import Field

from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.models import ChatSettings
from rag_pipeline.config.plugins import RERANKERS, VariantsOf
from rag_pipeline.config.settings import CorpusFile, Settings
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import ProviderError


class RerankInput(NamedTuple):
    """A query and the passages to score for it."""

    query: str
    passages: tuple[str, ...]


Relevance = list[float] | ProviderError
"""One score per passage, in order, or the model's error."""
RerankRequest = Callable[[str, list[str]], Awaitable[tuple[list[float], Usage]]]
"""From a query and passages to one score per passage, in order."""


@dataclass(frozen=True, slots=True)
class RerankLimits:
    """Maximum passages per request, tokens per pair of query and passage, tokens per request."""

    passages: int
    pair_tokens: int | None
    request_tokens: int | None = None


class Scorer(Protocol):
    """A model that scores how well passages answer a query."""

    limits: RerankLimits
    truncate: bool

    @property
    def identity(self) -> str:
        """Provider, model and parameters: everything that changes the scores, for call keys."""


@runtime_checkable
class LocalScorer(Scorer, Protocol):
    """A scorer of this process."""

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return the passages' scores."""


@runtime_checkable
class RemoteScorer(Scorer, Protocol):
    """A scorer behind a network; it takes many concurrent requests."""

    max_concurrency: int

    def connect(self) -> AbstractAsyncContextManager[RerankRequest]:
        """Open the connections of the running event loop; yield the function for one request."""


class RerankerSettings(Settings):
    """A method that reorders the first chunks of a retriever."""

    compares_tokens: ClassVar[bool] = False
    """Whether it needs an embedding with token vectors."""
    method: str

    def chat_used(self, config: CorpusFile) -> ChatSettings | None:
        """Return the chat model that scores the passages, if one does."""
        used = self.models_used(config)
        return next((one for one in used if isinstance(one, ChatSettings)), None)


class PassageReranker(RerankerSettings):
    """A method that scores pairs of query and passage for the first `candidates`.

    The other chunks follow in the retriever's order. With `on_error: keep_order` a failed query
    keeps the retriever's order. Else a search raises the error, and a run over all queries fails
    if more than one query and more than 5 % fail. A run counts failed queries; the next run asks
    them again.
    """

    candidates: int = Field(default=50, ge=1, le=1000)
    on_error: Literal["fail", "keep_order"] = "fail"


class ModelReranker(PassageReranker):
    """A reranker with its own model; scores are cached by query and passages."""

    prices: ClassVar[Mapping[str, Any]] = {}
    """An entry of the prices file; `{"date": …, "models": {"*": {}}}` is free."""

    @abstractmethod
    def open(self) -> Scorer:
        """Return a LocalScorer or a RemoteScorer, once per process.

        Raises ConfigError or ProviderError if the model is unusable.
        """


class FunctionReranker(PassageReranker):
    """A reranker that is one function; the function may call the models of the corpus file."""

    @abstractmethod
    def relevance(self, asked: Sequence[RerankInput], models: Models) -> list[Relevance]:
        """Return the scores of each query's passages, or the error of the failed model."""


Reranker = Annotated[RerankerSettings, VariantsOf(RERANKERS, "method")]
