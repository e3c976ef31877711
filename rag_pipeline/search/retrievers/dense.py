"""Nearest vectors."""

from typing import Literal

from rag_pipeline.search.retrievers import Ranking, Search, SinglePassRetriever


class DenseRetriever(SinglePassRetriever):
    """Nearest vectors by cosine."""

    method: Literal["dense"]

    def rank(self, search: Search, k: int) -> Ranking:
        """Rank by cosine."""
        return search.nearest(k)
