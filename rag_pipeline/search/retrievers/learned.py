"""A hybrid retriever with weights learned from the corpus's queries."""

from typing import Literal

from pydantic import Field

from rag_pipeline.search.retrievers.hybrid import HybridRetriever

WEIGHTS = ("dense_weight", "lexical_weight", "document_weight", "neighbour_weight")
PartWeights = dict[str, float]
"""A value for each of `WEIGHTS`."""


class LearnedRetriever(HybridRetriever):
    """The weighted fusion of `hybrid` with weights that a run learns from its queries.

    Learned weights stay near the set ones; a weight of 0 stays 0. Each query is measured with
    weights from queries about other documents. A release serves the weights from all queries. With
    fewer than `minimum_queries`, synthetic ones included, the set weights are used.
    """

    code_version = 1
    method: Literal["learned"]  # type: ignore[assignment]
    fusion: Literal["weighted"] = "weighted"
    minimum_queries: int = Field(default=50, ge=10)

    def weights(self) -> PartWeights:
        """Return the set weights."""
        return {name: getattr(self, name) for name in WEIGHTS}
