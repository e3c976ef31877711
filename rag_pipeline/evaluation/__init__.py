"""Measure ranked chunks against gold spans, per query, and summarize over queries."""

from rag_pipeline.evaluation.answer_presence import Span, answers, relevance_labels
from rag_pipeline.evaluation.llm_relevance import Agreement, Evaluator, agreement
from rag_pipeline.evaluation.relevance import relevant_chunks
from rag_pipeline.evaluation.retrieval_metrics import METRICS, evaluate_query
from rag_pipeline.evaluation.summary import Summary, summarize, summarize_all

__all__ = [
    "METRICS",
    "Agreement",
    "Evaluator",
    "Span",
    "Summary",
    "agreement",
    "answers",
    "evaluate_query",
    "relevance_labels",
    "relevant_chunks",
    "summarize",
    "summarize_all",
]
