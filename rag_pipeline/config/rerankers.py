"""What a reranker promises; the methods stand in `search.reranking` and `models.providers`."""

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
"""A score for each passage, in order, or why the model could not tell."""
RerankRequest = Callable[[str, list[str]], Awaitable[tuple[list[float], Usage]]]
"""From a query and passages to a score for each, in order."""


@dataclass(frozen=True, slots=True)
class RerankLimits:
    """Passages a request, tokens a pair of query and passage, tokens a request (all its pairs)."""

    passages: int
    pair_tokens: int | None
    request_tokens: int | None = None


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


class RerankerSettings(Settings):
    """What reorders the first chunks of a retriever."""

    compares_tokens: ClassVar[bool] = False
    """Whether it needs an embedding with token vectors."""
    method: str

    def chat_used(self, config: CorpusFile) -> ChatSettings | None:
        """Return the chat model that scores the passages, if one does."""
        used = self.models_used(config)
        return next((one for one in used if isinstance(one, ChatSettings)), None)


class PassageReranker(RerankerSettings):
    """Reads query and passage together, over the retriever's first `candidates`.

    They are ordered by its scores; the others follow in the retriever's order. With `on_error:
    keep_order`, a query that it fails on keeps the retriever's order. Otherwise a search raises the
    error, and so does a run over all queries if there are more of them than one or 5 %. A run
    counts such queries, and the next one asks again.
    """

    candidates: int = Field(default=50, ge=1, le=1000)
    on_error: Literal["fail", "keep_order"] = "fail"


class ModelReranker(PassageReranker):
    """A reranker with a model of its own, whose scores are kept by query and passages."""

    prices: ClassVar[Mapping[str, Any]] = {}
    """A vendor's entry of the prices file; `{"date": …, "models": {"*": {}}}` is free."""

    @abstractmethod
    def open(self) -> Scorer:
        """Return the model, a LocalScorer or a RemoteScorer; called once per process.

        Raises ConfigError or ProviderError where it can't be asked.
        """


class FunctionReranker(PassageReranker):
    """A reranker that is one function; the function may call the models of the corpus file."""

    @abstractmethod
    def relevance(self, asked: Sequence[RerankInput], models: Models) -> list[Relevance]:
        """Return the scores of each query's passages, or the error of the failed model."""


Reranker = Annotated[RerankerSettings, VariantsOf(RERANKERS, "method")]
