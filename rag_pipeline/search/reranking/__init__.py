"""Put the best of a retriever's candidates first: by token vectors, or by reading them."""

from rag_pipeline.config.rerankers import Asked, Relevance
from rag_pipeline.search.reranking.late_interaction import Weights, maxsim, token_weights
from rag_pipeline.search.reranking.llm import score_by_chat
from rag_pipeline.search.reranking.passages import score_passages

__all__ = [
    "Asked",
    "Relevance",
    "Weights",
    "maxsim",
    "score_by_chat",
    "score_passages",
    "token_weights",
]
