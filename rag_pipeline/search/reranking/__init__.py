"""Put the best of a retriever's candidates first: by token vectors, or by reading them."""

from rag_pipeline.config.rerankers import Relevance as Relevance
from rag_pipeline.config.rerankers import RerankInput as RerankInput
from rag_pipeline.search.reranking.late_interaction import Weights as Weights
from rag_pipeline.search.reranking.late_interaction import maxsim as maxsim
from rag_pipeline.search.reranking.late_interaction import token_weights as token_weights
from rag_pipeline.search.reranking.llm import score_by_chat as score_by_chat
from rag_pipeline.search.reranking.passages import score_passages as score_passages
