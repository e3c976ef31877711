"""No reranking."""

from typing import Literal

from rag_pipeline.config.rerankers import RerankerSettings


class NoReranker(RerankerSettings):
    """Keep the retriever's order."""

    method: Literal["none"]
