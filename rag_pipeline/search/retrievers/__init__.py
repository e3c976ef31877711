"""Retrievers that rank the chunks of an index in a single pass; one file a method."""

from abc import abstractmethod
from typing import Annotated, Self

import numpy as np

from rag_pipeline.config.plugins import RETRIEVERS, VariantsOf
from rag_pipeline.config.retrievers import LexicalEngine, RetrieverSettings
from rag_pipeline.errors import ConfigError
from rag_pipeline.search.ranking import Ranking as Ranking
from rag_pipeline.search.ranking import Search as Search
from rag_pipeline.search.ranking import positions_of


class SinglePassRetriever(RetrieverSettings):
    """A retriever that ranks the chunks of an index once, by their vectors."""

    @property
    def on_one_scale(self) -> bool:
        """Return whether scores lie within 0..1 and mean the same for every query."""
        return False

    @abstractmethod
    def rank(self, search: Search, k: int) -> Ranking:
        """Return chunks, each once, best first; callers use the first `k`.

        A longer ranking must start with the shorter one: the setting `k`, not the argument, decides
        how many candidates are compared.
        """

    def inside_document(self) -> Self:
        """Return the settings of a search among the chunks of one document."""
        return self

    def checked_ranking(self, search: Search, k: int | None = None) -> Ranking:
        """Return the first k chunks, by default as many as the setting `k`.

        Raises ConfigError for a chunk that occurs twice or is not in the index, and for scores that
        are not finite or rise.
        """
        k = k or self.k
        ranking = self.rank(search, k)[:k]
        positions, scores = positions_of(ranking), np.array([score for _, score in ranking])
        wrong, size = None, len(search.index)
        if len(np.unique(positions)) < len(positions):
            wrong = "a chunk stands in its ranking twice"
        elif len(positions) and not 0 <= positions.min() <= positions.max() < size:
            wrong = f"its ranking names a position outside the index, 0 to {size - 1}"
        elif not np.isfinite(scores).all() or (np.diff(scores) > 0).any():
            wrong = "the scores of its ranking are not finite, or one is higher than the one before"
        if wrong:
            raise ConfigError(f"the retriever of method {self.method!r}: {wrong}; repair its code")
        return ranking


def single_pass(settings: RetrieverSettings) -> SinglePassRetriever:
    """Return the retriever that ranks first: the settings themselves or the one they are over."""
    over = getattr(settings, "over", settings)
    if not isinstance(over, SinglePassRetriever):
        raise ConfigError(
            f"the retriever of method {settings.method!r} is no SinglePassRetriever; repair its "
            f"code"
        )
    return over


class TermRetriever(SinglePassRetriever):
    """A single pass over a lexical index, which the run builds for it."""

    engine: LexicalEngine = "bm25s"

    @property
    def lexical_engine(self) -> LexicalEngine:
        """Return the engine that is set."""
        return self.engine


SinglePass = Annotated[
    SinglePassRetriever, VariantsOf(RETRIEVERS, "method", among=RetrieverSettings)
]
