"""Retrieve the chunks with the vectors nearest to the query's vector."""

from typing import Literal

from rag_pipeline.search.retrievers import Ranking, Search, SinglePassRetriever


class DenseRetriever(SinglePassRetriever):
    """A retriever that ranks chunks by the cosine of their vectors and the query's vector."""

    code_version = 2
    method: Literal["dense"]

    def rank(self, search: Search, k: int) -> Ranking:
        """Return the k chunks with the highest cosine similarity."""
        return search.nearest(k)
