"""BM25."""

from typing import Literal

from rag_pipeline.search.retrievers import Ranking, Search, TermRetriever


class LexicalRetriever(TermRetriever):
    """BM25."""

    method: Literal["lexical"]

    def rank(self, search: Search, k: int) -> Ranking:
        """Rank by BM25."""
        return search.by_terms(k)
