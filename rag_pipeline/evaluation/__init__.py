"""Measure rankings, answers and contexts per query, summarize over queries, and compare."""

from rag_pipeline.evaluation.llm_relevance import Evaluator as Evaluator
