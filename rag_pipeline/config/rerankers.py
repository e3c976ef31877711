"""Declare the interface of rerankers. `search.reranking` and `models.providers` implement it."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from rag_pipeline.config.chunkings import Models
from rag_pipeline.config.models import ChatSettings
from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import CorpusFile, Settings
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import ProviderError
from rag_pipeline.imports import RERANKERS


class RerankInput(NamedTuple):
    """A query with its passages to score, and with the passages' documents if they are known."""

    query: str
    passages: tuple[str, ...]
    documents: tuple[str, ...] = ()


Relevance = list[float] | ProviderError
"""One score per passage, in order, or the model's error."""
RerankRequest = Callable[[str, list[str]], Awaitable[tuple[list[float], Usage]]]
"""Returns one score per passage of a query, in order, and the usage."""


@dataclass(frozen=True, slots=True)
class RerankLimits:
    """The maximum passages and tokens of a request, and tokens of a query with one passage."""

    passages: int
    pair_tokens: int | None
    request_tokens: int | None = None


class Scorer(Protocol):
    """A model that scores how well passages answer a query."""

    limits: RerankLimits
    truncate: bool

    @property
    def identity(self) -> str:
        """Return the provider, model and all parameters that change the scores, for call keys."""


@runtime_checkable
class LocalScorer(Scorer, Protocol):
    """A scorer with a model in this process."""

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return one score per passage, in order."""


@runtime_checkable
class RemoteScorer(Scorer, Protocol):
    """A scorer with a model behind a network. Requests may be concurrent."""

    max_concurrency: int

    def connect(self) -> AbstractAsyncContextManager[RerankRequest]:
        """Open connections for the running event loop, and yield a function for one request."""


class RerankerSettings(Settings):
    """The settings of a method that reorders the first chunks of a retriever."""

    compares_tokens: ClassVar[bool] = False
    """Whether the method needs an embedding with token vectors."""
    method: str

    def chat_used(self, config: CorpusFile) -> ChatSettings | None:
        """Return the chat model that scores the passages, or None for other methods."""
        used = self.models_used(config)
        return next((one for one in used if isinstance(one, ChatSettings)), None)


class PassageReranker(RerankerSettings):
    """A method that scores the first `candidates` chunks of a query as passages.

    The other chunks follow in the retriever's order. With `on_error: keep_order`, a failed query
    keeps the retriever's order. With `fail`, a search raises the error. A run then fails if more
    than one query and more than 5 % of the queries fail. The next run sends failed queries again.
    """

    candidates: int = Field(default=50, ge=1, le=1000)
    on_error: Literal["fail", "keep_order"] = "fail"


class ModelReranker(PassageReranker):
    """A reranking model. The call cache keeps its scores by query and passages."""

    prices: ClassVar[Mapping[str, Any]] = {}
    """An entry of the prices file. `{"date": …, "models": {"*": {}}}` means free of charge."""

    @abstractmethod
    def open(self) -> Scorer:
        """Return a LocalScorer or a RemoteScorer. Each process calls this once.

        Raise ConfigError or ProviderError if the model is unusable.
        """


class FunctionReranker(PassageReranker):
    """A reranking function. It may call the models of the corpus file."""

    @abstractmethod
    def relevance(self, asked: Sequence[RerankInput], models: Models) -> list[Relevance]:
        """Return the scores of each query's passages, or the model's error."""


Reranker = Annotated[RerankerSettings, VariantsOf(RERANKERS, "method")]
