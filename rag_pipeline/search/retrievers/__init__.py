"""What a single pass over an index promises, and what it searches with; one file a method."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

from rag_pipeline.config.plugins import RETRIEVERS, VariantsOf
from rag_pipeline.config.retrievers import LexicalEngine, RetrieverSettings
from rag_pipeline.models.providers import Vectors
from rag_pipeline.search.index import Index, Mask
from rag_pipeline.search.nearest import Ranking, Scored, nearest, positions_of, ranked
from rag_pipeline.search.query_analysis import Question

__all__ = ["Ranking", "Search", "SinglePass", "SinglePassRetriever", "TermRetriever"]


@dataclass(frozen=True)
class Search:
    """One question's search of one index, among the chunks that a filter keeps."""

    index: Index
    question: Question
    vector: Vectors
    """What `question.ask` was embedded as, shape (dimension,)."""
    where: str | None = None
    """A filter in LanceDB's SQL."""
    known: Mask | None = None
    """The chunks that the filter keeps, where they are known."""

    @cached_property
    def allowed(self) -> Mask | None:
        """Return the chunks that the filter keeps; None where all may be found."""
        if self.known is not None or self.where is None:
            return self.known
        return self.index.matching(self.where)

    def nearest(self, k: int) -> Ranking:
        """Return the k chunks with the nearest vectors, scored by cosine."""
        return ranked(*self.nearest_scored(k))

    def nearest_scored(self, k: int) -> Scored:
        """Return what `nearest` ranks, as arrays."""
        # A search on disk applies the filter by itself.
        allowed = None if self.index.vectors is None else self.allowed
        return nearest(self.index, self.vector, k, self.where, allowed)

    def by_terms(self, k: int) -> Ranking:
        """Return the k chunks that score best by BM25, all of them above 0.

        Raises StoreError unless `lexical_engine` says that a lexical index is searched.
        """
        return ranked(*self.index.terms.search(self.question.ask, k, self.allowed))[:k]

    def read(self, ranking: Ranking, column: str) -> list[Any]:
        """Return a column of the ranked chunks, in order: `text`, `document_id`, `metadata` …"""
        if not ranking:
            return []
        values: list[Any] = self.index.take(positions_of(ranking), [column])[column].to_pylist()
        return values


class SinglePassRetriever(RetrieverSettings):
    """A retriever that ranks the chunks of an index once, by their vectors."""

    @property
    def on_one_scale(self) -> bool:
        """Return whether scores lie within 0..1 and mean the same for every query."""
        return False

    @abstractmethod
    def rank(self, search: Search, depth: int) -> Ranking:
        """Return chunks, each once, best first; the first `depth` are used.

        A deeper ranking must start with the shorter one: let `top_k` and not `depth` say how many
        candidates are compared.
        """

    def inside_document(self) -> Self:
        """Return the settings of a search among the chunks of one document."""
        return self


class TermRetriever(SinglePassRetriever):
    """A single pass that searches a lexical index, which the run builds for it."""

    engine: LexicalEngine = "bm25s"

    @property
    def lexical_engine(self) -> LexicalEngine:
        """Return the engine that is set."""
        return self.engine


SinglePass = Annotated[
    SinglePassRetriever, VariantsOf(RETRIEVERS, "method", among=RetrieverSettings)
]
