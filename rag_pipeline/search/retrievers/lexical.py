"""Retrieve chunks by BM25."""

from typing import Literal

from rag_pipeline.search.retrievers import Ranking, Search, TermRetriever


class LexicalRetriever(TermRetriever):
    """A retriever that ranks chunks by BM25."""

    method: Literal["lexical"]

    def rank(self, search: Search, k: int) -> Ranking:
        """Return the k chunks with the highest BM25 scores."""
        return search.by_terms(k)
