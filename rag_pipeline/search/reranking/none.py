"""Define the reranker that changes nothing."""

from typing import Literal

from rag_pipeline.config.rerankers import RerankerSettings


class NoReranker(RerankerSettings):
    """A reranker that keeps the retriever's order."""

    method: Literal["none"]
