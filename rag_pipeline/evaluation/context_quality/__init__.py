"""Did the retrieved contexts help: how relevant they are, whether used, what is missing."""

from rag_pipeline.evaluation.context_quality.llm import judge_with_llm
from rag_pipeline.evaluation.context_quality.rules import judge_by_rules, key_phrases, was_used
from rag_pipeline.evaluation.context_quality.scores import (
    CONTEXT_METRICS,
    ContextJudgement,
    Judged,
    Level,
    context_metrics,
    context_precision,
    context_relevance,
    ranking_penalty,
)

__all__ = [
    "CONTEXT_METRICS",
    "ContextJudgement",
    "Judged",
    "Level",
    "context_metrics",
    "context_precision",
    "context_relevance",
    "judge_by_rules",
    "judge_with_llm",
    "key_phrases",
    "ranking_penalty",
    "was_used",
]
