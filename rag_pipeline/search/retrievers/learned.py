"""Retrieve with weights that a run learns from the corpus's queries."""

from typing import Literal

from pydantic import Field

from rag_pipeline.search.retrievers.hybrid import HybridRetriever

WEIGHTS = ("dense_weight", "lexical_weight", "document_weight", "neighbour_weight")
PartWeights = dict[str, float]
"""A value for each of `WEIGHTS`."""


class LearnedRetriever(HybridRetriever):
    """A `hybrid` retriever with weights that a run learns from the corpus's queries.

    Learned weights stay near the configured weights. A configured weight of 0 stays 0. Each query
    is measured with weights learned from queries about other documents. A release uses the weights
    learned from all queries. With fewer than `minimum_queries` queries (people's and synthetic),
    the configured weights apply.
    """

    code_version = 2
    method: Literal["learned"]  # type: ignore[assignment]
    fusion: Literal["weighted"] = "weighted"
    minimum_queries: int = Field(default=50, ge=10)

    def weights(self) -> PartWeights:
        """Return the configured weights."""
        return {name: getattr(self, name) for name in WEIGHTS}
