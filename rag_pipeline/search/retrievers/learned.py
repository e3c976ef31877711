"""A hybrid retriever whose weights are learned from the corpus's own questions."""

from typing import Literal

from pydantic import Field

from rag_pipeline.search.retrievers.hybrid import HybridRetriever

WEIGHTS = ("dense_weight", "lexical_weight", "document_weight", "neighbour_weight")
PartWeights = dict[str, float]
"""A value for each of `WEIGHTS`."""


class LearnedRetriever(HybridRetriever):
    """The weighted fusion of `hybrid` with weights that a run learns from its questions.

    They start from the weights that are set and stay near them; one that is 0 stays 0. Each
    question is measured with weights learned from questions about other documents, and a release
    serves those learned from all. With fewer than `minimum_queries`, synthetic ones included, the
    weights stay as they are set.
    """

    code_version = 1
    method: Literal["learned"]  # type: ignore[assignment]
    fusion: Literal["weighted"] = "weighted"
    minimum_queries: int = Field(default=50, ge=10)

    def weights(self) -> PartWeights:
        """Return the weights that are set."""
        return {name: getattr(self, name) for name in WEIGHTS}
