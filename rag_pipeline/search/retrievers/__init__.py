"""Define the retrievers that rank the chunks of an index in one search, one method per file."""

from abc import abstractmethod
from typing import Annotated, Self

import numpy as np

from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.retrievers import LexicalEngine, RetrieverSettings
from rag_pipeline.errors import ConfigError
from rag_pipeline.imports import RETRIEVERS
from rag_pipeline.search.ranking import Ranking as Ranking
from rag_pipeline.search.ranking import Search as Search
from rag_pipeline.search.ranking import positions_of


class SinglePassRetriever(RetrieverSettings):
    """A retriever that ranks the chunks of an index in one search."""

    @property
    def on_one_scale(self) -> bool:
        """Return whether scores lie between 0 and 1, and are comparable between queries."""
        return False

    @abstractmethod
    def rank(self, search: Search, k: int) -> Ranking:
        """Return distinct chunks, best first. Callers use the first `k`.

        The ranking for a larger `k` must start with the ranking for a smaller `k`. Therefore the
        settings, not this argument, must decide the number of candidates.
        """

    def inside_document(self) -> Self:
        """Return the settings for a search inside one document."""
        return self

    def checked_ranking(self, search: Search, k: int | None = None) -> Ranking:
        """Return the first k chunks of `rank`. The default k is the setting `k`.

        Raise ConfigError if a chunk occurs twice, is not in the index or is hidden from the
        caller. Raise ConfigError if a score is not finite, or is higher than the score before it.
        """
        k = k or self.k
        ranking = self.rank(search, k)[:k]
        positions, scores = positions_of(ranking), np.array([score for _, score in ranking])
        wrong, size, visible = None, len(search.index), search.index.visible
        if len(np.unique(positions)) < len(positions):
            wrong = "its ranking has a chunk twice"
        elif len(positions) and not 0 <= positions.min() <= positions.max() < size:
            wrong = f"its ranking has a position outside the index, 0 to {size - 1}"
        elif len(positions) and not (visible is None or visible[positions].all()):
            wrong = "its ranking has a chunk that the caller may not see"
        elif not np.isfinite(scores).all() or (np.diff(scores) > 0).any():
            wrong = "a score of its ranking is not finite, or higher than the score before it"
        if wrong:
            raise ConfigError(f"the retriever of method {self.method!r}: {wrong}; repair its code")
        return ranking


def single_pass(settings: RetrieverSettings) -> SinglePassRetriever:
    """Return the retriever `over` of the settings, or the settings if they have no `over`.

    Raise ConfigError if the result is not a SinglePassRetriever.
    """
    over = getattr(settings, "over", settings)
    if not isinstance(over, SinglePassRetriever):
        raise ConfigError(
            f"the retriever of method {settings.method!r} is not a SinglePassRetriever; repair its "
            f"code"
        )
    return over


class TermRetriever(SinglePassRetriever):
    """A retriever that needs a lexical index. A run builds this index."""

    engine: LexicalEngine = "bm25s"

    @property
    def lexical_engine(self) -> LexicalEngine:
        """Return the configured BM25 engine."""
        return self.engine


SinglePass = Annotated[
    SinglePassRetriever, VariantsOf(RETRIEVERS, "method", among=RetrieverSettings)
]
