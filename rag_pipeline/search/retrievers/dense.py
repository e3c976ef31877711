"""Retrieve the chunks with the vectors nearest to the query's vector."""

from typing import Literal

from rag_pipeline.search.retrievers import Ranking, Search, SinglePassRetriever


class DenseRetriever(SinglePassRetriever):
    """Ranks chunks by the cosine similarity of their vectors to the query's vector."""

    code_version = 2
    method: Literal["dense"]

    def rank(self, search: Search, k: int) -> Ranking:
        """Return the k chunks with the highest cosine similarity."""
        return search.nearest(k)
