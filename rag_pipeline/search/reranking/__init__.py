"""Put the best of a retriever's candidates first: by token vectors, or by reading them."""

from rag_pipeline.search.reranking.late_interaction import Weights, maxsim, token_weights
from rag_pipeline.search.reranking.passages import Asked, Relevance, score_by_chat, score_passages

__all__ = [
    "Asked",
    "Relevance",
    "Weights",
    "maxsim",
    "score_by_chat",
    "score_passages",
    "token_weights",
]
