"""Measure rankings, answers and contexts of configurations, and compare configurations."""

from rag_pipeline.evaluation.llm_relevance import Evaluator as Evaluator
